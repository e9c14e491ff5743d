"""docs/language.md says of every operator, stage and option of MongoDB 8.0 whether it is served: each is tried, and what is not served
must be refused by name. `python test_language.py URI` prints the document anew."""

import pathlib
import re
import sys

from pymongo import MongoClient
from pymongo.errors import OperationFailure

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/language.md"

EXPRESSIONS = """
$abs $acos $acosh $add $allElementsTrue $and $anyElementTrue $arrayElemAt $arrayToObject $asin $asinh $atan $atan2 $atanh $avg
$binarySize $bitAnd $bitNot $bitOr $bitXor $bsonSize $ceil $cmp $concat $concatArrays $cond $convert $cos $cosh $dateAdd $dateDiff
$dateFromParts $dateFromString $dateSubtract $dateToParts $dateToString $dateTrunc $dayOfMonth $dayOfWeek $dayOfYear
$degreesToRadians $divide $eq $exp $filter $first $firstN $floor $function $getField $gt $gte $hour $ifNull $in $indexOfArray
$indexOfBytes $indexOfCP $isArray $isNumber $isoDayOfWeek $isoWeek $isoWeekYear $last $lastN $let $literal $ln $log $log10 $lt
$lte $ltrim $map $max $maxN $median $mergeObjects $meta $millisecond $min $minN $minute $mod $month $multiply $ne $not
$objectToArray $or $percentile $pow $radiansToDegrees $rand $range $reduce $regexFind $regexFindAll $regexMatch $replaceAll
$replaceOne $reverseArray $round $rtrim $sampleRate $second $setDifference $setEquals $setField $setIntersection $setIsSubset
$setUnion $sin $sinh $size $slice $sortArray $split $sqrt $stdDevPop $stdDevSamp $strLenBytes $strLenCP $strcasecmp $substr
$substrBytes $substrCP $subtract $sum $switch $tan $tanh $toBool $toDate $toDecimal $toDouble $toHashedIndexKey $toInt $toLong
$toLower $toObjectId $toString $toUUID $toUpper $trim $trunc $tsIncrement $tsSecond $type $unsetField $week $year $zip
""".split()
ACCUMULATORS = """
$accumulator $addToSet $avg $bottom $bottomN $count $first $firstN $last $lastN $max $maxN $median $mergeObjects $min $minN
$percentile $push $stdDevPop $stdDevSamp $sum $top $topN
""".split()
STAGES = """
$addFields $bucket $bucketAuto $changeStream $changeStreamSplitLargeEvent $collStats $count $currentOp $densify $documents
$facet $fill $geoNear $graphLookup $group $indexStats $limit $listLocalSessions $listSampledQueries $listSearchIndexes $listSessions
$lookup $match $merge $out $planCacheStats $project $querySettings $queryStats $redact $replaceRoot $replaceWith $sample $search
$searchMeta $set $setWindowFields $shardedDataDistribution $skip $sort $sortByCount $unionWith $unset $unwind $vectorSearch
""".split()
FILTERS = """
$all $and $bitsAllClear $bitsAllSet $bitsAnyClear $bitsAnySet $comment $elemMatch $eq $exists $expr $geoIntersects $geoWithin $gt $gte
$in $jsonSchema $lt $lte $mod $ne $near $nearSphere $nin $nor $not $or $regex $sampleRate $size $text $type $where
""".split()
AT_THE_TOP = "$and $or $nor $expr $where $text $jsonSchema $comment $sampleRate".split()
WITHOUT_COLLECTION = """
$currentOp $documents $listLocalSessions $listSampledQueries $listSessions $querySettings $queryStats $shardedDataDistribution
""".split()
# Of `mongod`; those that only `mongos` has are among those of sharding.
COMMANDS = """
abortReshardCollection abortTransaction addShard addShardToZone aggregate analyzeShardKey appendOplogNote applyOps authenticate
autoCompact balancerCollectionStatus balancerStart balancerStatus balancerStop buildInfo bulkWrite checkMetadataConsistency
cleanupOrphaned cleanupReshardCollection clearJumboFlag cloneCollectionAsCapped collMod collStats commitReshardCollection
commitTransaction compact compactStructuredEncryptionData configureCollectionBalancing configureQueryAnalyzer connPoolStats
connectionStatus convertToCapped count create createIndexes createRole createSearchIndexes createUser currentOp dataSize dbHash
dbStats delete distinct drop dropAllRolesFromDatabase dropAllUsersFromDatabase dropConnections dropDatabase dropIndexes dropRole
dropSearchIndex dropUser enableSharding endSessions explain filemd5 find findAndModify flushRouterConfig fsync fsyncUnlock
getAuditConfig getClusterParameter getCmdLineOpts getDefaultRWConcern getLog getMore getParameter getShardMap getShardVersion
grantPrivilegesToRole grantRolesToRole grantRolesToUser hello hostInfo insert invalidateUserCache isdbgrid killAllSessions
killAllSessionsByPattern killCursors killOp killSessions listCollections listCommands listDatabases listIndexes listSearchIndexes
listShards lockInfo logApplicationMessage logRotate logout mapReduce medianKey mergeAllChunksOnShard mergeChunks moveChunk
moveCollection movePrimary moveRange ping planCacheClear planCacheClearFilters planCacheListFilters planCacheSetFilter profile
refineCollectionShardKey refreshSessions reIndex removeQuerySettings removeShard removeShardFromZone renameCollection
replSetAbortPrimaryCatchUp replSetFreeze replSetGetConfig replSetGetStatus replSetInitiate replSetMaintenance replSetReconfig
replSetResizeOplog replSetStepDown replSetSyncFrom reshardCollection revokePrivilegesFromRole revokeRolesFromRole
revokeRolesFromUser rolesInfo rotateCertificates serverStatus setAllowMigrations setAuditConfig setClusterParameter
setDefaultRWConcern setFeatureCompatibilityVersion setIndexCommitQuorum setParameter setQuerySettings setShardVersion
setUserWriteBlockMode shardCollection shardConnPoolStats shardingState shutdown split splitChunk splitVector startSession top
transitionFromDedicatedConfigServer transitionToDedicatedConfigServer unsetSharding unshardCollection update updateRole
updateSearchIndex updateUser updateZoneKeyRange usersInfo validate validateDBMetadata whatsmyuri
""".split()
UPDATES = """
$addToSet $bit $currentDate $inc $max $min $mul $pop $pull $pullAll $push $rename $set $setOnInsert $unset
""".split()
FIND_OPTIONS = {
    "allowDiskUse": True, "allowPartialResults": True, "awaitData": False, "batchSize": 1, "collation": {"locale": "en"}, "comment": "x",
    "hint": "_id_", "let": {"x": 1}, "limit": 1, "max": {"_id": 9}, "maxTimeMS": 1000, "min": {"_id": 0}, "noCursorTimeout": True,
    "projection": {"a": 1}, "readConcern": {"level": "local"}, "returnKey": True, "showRecordId": True, "singleBatch": True,
    "skip": 1, "sort": {"a": 1}, "tailable": False,
}
INDEX_OPTIONS = {
    "collation": {"locale": "en"}, "expireAfterSeconds": 60, "hidden": True, "partialFilterExpression": {"a": 1}, "sparse": True,
    "storageEngine": {}, "unique": True,
}
INDEX_KINDS = {"ascending": 1, "descending": -1, "hashed": "hashed", "text": "text", "2d": "2d", "2dsphere": "2dsphere", "wildcard": None}
CREATE_OPTIONS = {
    "capped": {"capped": True, "size": 4096}, "changeStreamPreAndPostImages": {"changeStreamPreAndPostImages": {"enabled": True}},
    "clusteredIndex": {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}, "collation": {"collation": {"locale": "en"}},
    "expireAfterSeconds": {"clusteredIndex": {"key": {"_id": 1}, "unique": True}, "expireAfterSeconds": 60}, "storageEngine": {"storageEngine": {}},
    "timeseries": {"timeseries": {"timeField": "t"}}, "validator": {"validator": {"a": 1}}, "viewOn": {"viewOn": "c", "pipeline": []},
}
# What a server says of a name that it does not serve: that it does not know it, that a command is not supported (here or without
# JavaScript), or that an option is an unknown field.
UNSERVED_CODES = {2, 9, 40, 59, 67, 72, 115, 168, 197, 224, 238, 40324, 40415, 15952, 31325, 16410}
UNSERVED_TEXT = re.compile(r"not supported|unrecognized|unknown|not recognized|no JavaScript|not served|illegal field name|no such command", re.IGNORECASE)


def is_served(try_it):
    """A name is served when what is said of it, if anything, is about its arguments."""
    try:
        try_it()
    except OperationFailure as error:
        return not (error.code in UNSERVED_CODES and UNSERVED_TEXT.search(error.details["errmsg"]))
    return True


def probes(client):
    """The kinds of names, each with what tries one."""
    database = client.language_probe
    client.drop_database(database)
    things = database.things
    things.insert_one({"_id": 1, "a": 1})

    def aggregate(*pipeline):
        database.command("aggregate", "things", pipeline=pipeline, cursor={})

    def stage(name):
        if name in WITHOUT_COLLECTION:
            where = client.config if name == "$listSessions" else client.admin
            target = "system.sessions" if name == "$listSessions" else 1
            value = [] if name == "$documents" else {}
            where.command("aggregate", target, pipeline=[{name: value}], cursor={})
        elif name == "$changeStreamSplitLargeEvent":
            # It stands behind another one alone.
            aggregate({"$changeStream": {}}, {name: {}})
        else:
            aggregate({name: {}})

    def create(name):
        database.drop_collection("made")
        database.command("create", "made", **CREATE_OPTIONS[name])

    def index(key, **options):
        things.drop_indexes()
        database.command("createIndexes", "things", indexes=[{"key": key, "name": "i", **options}])

    commands = client.admin.command("listCommands")["commands"]

    def command(name):
        # One that is served is not tried: it would do what it says.
        if name not in commands:
            client.admin.command(name)

    def expression(name):
        # MongoDB's manual lists it with the expressions; it stands in a $match.
        if name == "$sampleRate":
            aggregate({"$match": {name: 0.5}})
        else:
            aggregate({"$project": {"x": {name: "recordId" if name == "$meta" else []}}})

    kinds = {"ascending": {"a": 1}, "wildcard": {"$**": 1}}
    return [
        ("Expressions", EXPRESSIONS, expression),
        ("Accumulators of `$group`", ACCUMULATORS, lambda name: aggregate({"$group": {"_id": None, "x": {name: {}}}})),
        ("Stages", STAGES, stage),
        ("Filters", FILTERS, lambda name: things.find_one({name: 1} if name in AT_THE_TOP else {"a": {name: 1}})),
        ("Updates", UPDATES, lambda name: things.update_one({}, {name: {"b": 1}})),
        ("Options of `find`", list(FIND_OPTIONS), lambda name: database.command("find", "things", **{name: FIND_OPTIONS[name]})),
        ("Kinds of indexes", list(INDEX_KINDS), lambda name: index(kinds.get(name, {"a": INDEX_KINDS[name]}))),
        ("Options of indexes", list(INDEX_OPTIONS), lambda name: index({"a": 1}, **{name: INDEX_OPTIONS[name]})),
        ("Options of `create`", list(CREATE_OPTIONS), create),
        ("Commands", COMMANDS, command),
    ]


HEAD = """# The language

Every operator, stage and option of MongoDB 8.0's manual, and whether it is served. What is not is refused by name, never passed over.
A test tries each name against a server (`tests/drivers/test_language.py`, which also writes this page).
What the operators answer is held against another implementation too, `mingo`: the cases of the scripts in `crates/query/tests` and random
requests. Where the two differ, and who is right by MongoDB's manual, stands in `tests/drivers/mingo/differs.txt`.
"""


def document(client):
    text = HEAD
    for title, names, probe in probes(client):
        served = [name for name in names if is_served(lambda name=name, probe=probe: probe(name))]
        others = [name for name in names if name not in served]
        text += f"\n## {title}\n\n**Served** ({len(served)} of {len(names)}): {' '.join(f'`{name}`' for name in served)}\n"
        text += f"\n**Not served**: {' '.join(f'`{name}`' for name in others) or 'none'}\n"
    client.drop_database("language_probe")
    return text


def test_what_is_not_served_says_why(client):
    """A name of MongoDB's that is not served is refused with what the server lacks for it, not as one that nobody has heard of."""
    for title, names, probe in probes(client):
        if title not in ("Stages", "Commands", "Filters", "Accumulators of `$group`"):
            continue
        for name in names:
            if is_served(lambda name=name, probe=probe: probe(name)):
                continue
            try:
                probe(name)
            except OperationFailure as error:
                text = error.details["errmsg"]
            assert re.search(r"(no such command: '\w+'|is not supported( here)?): \w+", text), text
    client.drop_database("language_probe")


def test_the_page_says_what_is_served(client):
    assert document(client) == DOCUMENT.read_text()


if __name__ == "__main__":
    print(document(MongoClient(sys.argv[1])), end="")
