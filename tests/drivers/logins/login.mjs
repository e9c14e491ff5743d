// Logs in by the connection string that is its argument, writes and reads a document, and prints one line: `ok` and who it is,
// or `error` and why not.

import { MongoClient } from 'mongodb';

try {
    // Errors of a string that is none come from the constructor.
    const client = new MongoClient(process.argv[2]);
    try {
        const { authInfo } = await client.db('admin').command({ connectionStatus: 1 });
        const things = client.db('db').collection('logins');
        await things.insertOne({ by: 'node' });
        if ((await things.findOne({ by: 'node' })) === null) throw new Error('what was written is not there');
        console.log(`ok ${authInfo.authenticatedUsers[0]?.user ?? 'nobody'}`);
    } finally {
        await client.close();
    }
} catch (error) {
    console.log(`error ${error.message.replaceAll('\n', ' ')}`);
}
