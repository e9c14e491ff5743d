// MongoDB's Java codec as a peer of the benchmark. A line `SCENARIO OPERATION CALLS` on standard input is
// answered with the nanoseconds that so many calls took; an operation it does not have with `-`.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.bson.BsonBinaryReader;
import org.bson.BsonBinaryWriter;
import org.bson.BsonDocument;
import org.bson.BsonType;
import org.bson.BsonValue;
import org.bson.RawBsonDocument;
import org.bson.codecs.BsonDocumentCodec;
import org.bson.codecs.DecoderContext;
import org.bson.codecs.EncoderContext;
import org.bson.io.BasicOutputBuffer;
import org.bson.json.JsonMode;
import org.bson.json.JsonWriterSettings;

public final class Peer {
    private static final BsonDocumentCodec CODEC = new BsonDocumentCodec();
    private static final DecoderContext DECODER = DecoderContext.builder().build();
    private static final EncoderContext ENCODER = EncoderContext.builder().build();
    private static final JsonWriterSettings CANONICAL = JsonWriterSettings.builder().outputMode(JsonMode.EXTENDED).build();

    // What the calls computed goes here, so that none of it can be left out.
    private static long sink;

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        Map<String, Scenario> scenarios = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            Scenario scenario = scenarios.get(words[0]);
            if (scenario == null) {
                scenario = new Scenario(Files.readAllBytes(directory.resolve(words[0] + ".bson")));
                scenarios.put(words[0], scenario);
            }
            Runnable call = scenario.call(words[1]);
            if (call == null) {
                System.out.println("-");
                continue;
            }
            long calls = Long.parseLong(words[2]);
            long start = System.nanoTime();
            for (long i = 0; i < calls; i++) {
                call.run();
            }
            System.out.println(System.nanoTime() - start);
        }
        System.err.print(sink == 42 ? " " : "");
    }

    private static final class Scenario {
        private final byte[] bytes;
        private final BsonDocument tree;
        private final BsonDocument copy;
        private final String canonical;
        private final List<String> spread = new ArrayList<>();
        private final List<String> first = new ArrayList<>();
        private final Map<String, Runnable> calls = new HashMap<>();

        Scenario(byte[] bytes) {
            this.bytes = bytes;
            tree = decode();
            copy = decode();
            canonical = tree.toJson(CANONICAL);
            List<String> names = new ArrayList<>(tree.keySet());
            for (int i = 0; i < 5; i++) {
                spread.add(names.get((i * 2 + 1) * names.size() / 10));
                first.add(names.get(i));
            }
            calls.put("owned", () -> sink += decode().size());
            calls.put("owned-read", () -> sink += sum(decode()));
            calls.put("iterate", () -> sink += iterate());
            calls.put("validate", () -> sink += walk());
            calls.put("spread5", () -> sink += gets(spread));
            calls.put("first5", () -> sink += gets(first));
            calls.put("encode", () -> sink += encode());
            calls.put("compare", () -> sink += tree.equals(copy) ? 1 : 0);
            calls.put("extjson", () -> sink += tree.toJson(CANONICAL).length() + BsonDocument.parse(canonical).size());
        }

        Runnable call(String operation) {
            return calls.get(operation);
        }

        private BsonDocument decode() {
            try (BsonBinaryReader reader = new BsonBinaryReader(ByteBuffer.wrap(bytes))) {
                return CODEC.decode(reader, DECODER);
            }
        }

        private long encode() {
            BasicOutputBuffer buffer = new BasicOutputBuffer(bytes.length);
            try (BsonBinaryWriter writer = new BsonBinaryWriter(buffer)) {
                CODEC.encode(writer, tree, ENCODER);
            }
            return buffer.getSize();
        }

        private long gets(List<String> names) {
            RawBsonDocument document = new RawBsonDocument(bytes);
            long sum = 0;
            for (String name : names) {
                sum += value(document.get(name));
            }
            return sum;
        }

        private long walk() {
            try (BsonBinaryReader reader = new BsonBinaryReader(ByteBuffer.wrap(bytes))) {
                reader.readStartDocument();
                long sum = readAll(reader);
                reader.readEndDocument();
                return sum;
            }
        }

        private long iterate() {
            long sum = 0;
            try (BsonBinaryReader reader = new BsonBinaryReader(ByteBuffer.wrap(bytes))) {
                reader.readStartDocument();
                while (reader.readBsonType() != BsonType.END_OF_DOCUMENT) {
                    sum += reader.readName().length();
                    switch (reader.getCurrentBsonType()) {
                        case INT32 -> sum ^= reader.readInt32();
                        case INT64 -> sum ^= reader.readInt64();
                        case DOUBLE -> sum ^= Double.doubleToRawLongBits(reader.readDouble());
                        case BOOLEAN -> sum ^= reader.readBoolean() ? 1 : 0;
                        case STRING -> sum ^= reader.readString().length();
                        default -> reader.skipValue();
                    }
                }
            }
            return sum;
        }
    }

    // The codec has no validating pass of its own; reading every value finds what is broken.
    private static long readAll(BsonBinaryReader reader) {
        long sum = 0;
        while (reader.readBsonType() != BsonType.END_OF_DOCUMENT) {
            switch (reader.getCurrentBsonType()) {
                case INT32 -> sum ^= reader.readInt32();
                case INT64 -> sum ^= reader.readInt64();
                case DOUBLE -> sum ^= Double.doubleToRawLongBits(reader.readDouble());
                case BOOLEAN -> sum ^= reader.readBoolean() ? 1 : 0;
                case STRING -> sum ^= reader.readString().length();
                case ARRAY -> {
                    reader.readStartArray();
                    sum ^= readAll(reader);
                    reader.readEndArray();
                }
                default -> throw new IllegalStateException("no scenario has such a value");
            }
        }
        return sum;
    }

    private static long sum(BsonDocument document) {
        long sum = 0;
        for (Map.Entry<String, BsonValue> field : document.entrySet()) {
            sum ^= field.getKey().length() ^ value(field.getValue());
        }
        return sum;
    }

    private static long value(BsonValue value) {
        switch (value.getBsonType()) {
            case INT32:
                return value.asInt32().getValue();
            case INT64:
                return value.asInt64().getValue();
            case DOUBLE:
                return Double.doubleToRawLongBits(value.asDouble().getValue());
            case BOOLEAN:
                return value.asBoolean().getValue() ? 1 : 0;
            case STRING:
                return value.asString().getValue().length();
            case ARRAY:
                long sum = 0;
                for (BsonValue item : value.asArray()) {
                    sum ^= value(item);
                }
                return sum;
            default:
                return 0;
        }
    }
}
