// A Nest application whose module and models @nestjs/mongoose makes: `node nestjs_mongoose.mjs URI`.
import "reflect-metadata";
import { Inject, Injectable, Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { getConnectionToken, getModelToken, MongooseModule, Prop, Schema, SchemaFactory } from "@nestjs/mongoose";

class Cat {}
Prop({ type: String, required: true, unique: true })(Cat.prototype, "name");
Prop({ type: Number, index: true })(Cat.prototype, "age");
Schema({ timestamps: true })(Cat);

class Cats {
  constructor(model, connection) {
    this.model = model;
    this.connection = connection;
  }
}
Injectable()(Cats);
Inject(getModelToken(Cat.name))(Cats, undefined, 0);
Inject(getConnectionToken())(Cats, undefined, 1);

class Application {}
Module({
  imports: [MongooseModule.forRoot(process.argv[2]), MongooseModule.forFeature([{ name: Cat.name, schema: SchemaFactory.createForClass(Cat) }])],
  providers: [Cats],
})(Application);

const application = await NestFactory.createApplicationContext(Application, { logger: false, abortOnError: false });
const { model, connection } = application.get(Cats);
await model.init();
const said = {};
await connection.transaction((session) => model.create([{ name: "Tom", age: 3 }, { name: "Felix", age: 9 }], { session, ordered: true }));
said.duplicate = await model.create({ name: "Tom" }).then(() => "none", (error) => error.code);
said.invalid = await model.create({ age: 1 }).then(() => "none", (error) => error.name);
await model.updateOne({ name: "Tom" }, { $inc: { age: 1 } });
said.found = (await model.find().sort({ age: 1 }).lean()).map(({ name, age }) => [name, age]);
await application.close();
console.log(JSON.stringify(said));
