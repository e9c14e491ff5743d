// Writes and reads a document over the connection of mongosh, and prints one line: `ok` and who it is, or `error` and why not.

try {
    const { authInfo } = db.adminCommand({ connectionStatus: 1 });
    const things = db.getSiblingDB('db').logins;
    things.insertOne({ by: 'mongosh' });
    if (things.findOne({ by: 'mongosh' }) === null) throw new Error('what was written is not there');
    print(`ok ${authInfo.authenticatedUsers[0]?.user ?? 'nobody'}`);
} catch (error) {
    print(`error ${error.message.replaceAll('\n', ' ')}`);
}
