//! `replSetGetStatus`: how the set and its only member are.

use quarry_bson::{DateTime, DocumentBuilder};
use quarry_query::ErrorCode;

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, number};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::replication::cluster_clock::{ClusterTimes, date_of};
use crate::replication::replica_set::{ReplicaSet, append_optime, config_version};
use crate::replication::set_config::TERM;

pub static COMMAND: Command = Command {
    fields: Fields::named(&[number("initialSync").ignored()]),
    is_admin_only: true,
    ..Command::new(
        "replSetGetStatus",
        "shows how the replica set is",
        Requires::Each(&[need(Action::ReplSetGetStatus, On::Cluster)]),
        run,
    )
};

/// The state of a primary.
const PRIMARY: i32 = 1;
const HEARTBEAT_MS: i64 = 2000;
const ELECTION_TIMEOUT_MS: i64 = 10_000;

/// The set that the server is, or the error that a standalone answers with.
pub fn set_of(invocation: &Invocation<'_>) -> Result<&'static ReplicaSet> {
    let server = invocation.server;
    server.replica_set.as_ref().ok_or_else(|| {
        CommandError::new(
            ErrorCode::NO_REPLICATION_ENABLED,
            "not running with --replSet",
        )
    })
}

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let set = set_of(invocation)?;
    let times = set.times(&invocation.server.database);
    reply.append("set", set.name.as_str());
    reply.append("date", DateTime::now());
    reply.append("myState", PRIMARY);
    reply.append("term", TERM);
    reply.append("syncSourceHost", "");
    reply.append("syncSourceId", -1);
    reply.append("heartbeatIntervalMillis", HEARTBEAT_MS);
    for count in [
        "majorityVoteCount",
        "writeMajorityCount",
        "votingMembersCount",
        "writableVotingMembersCount",
    ] {
        reply.append(count, 1);
    }
    append_optimes(times, reply);
    let mut election = reply.document("electionCandidateMetrics");
    election.append("lastElectionReason", "electionTimeout");
    election.append("lastElectionDate", date_of(set.elected));
    election.append("electionTerm", TERM);
    for field in ["lastCommittedOpTimeAtElection", "lastSeenOpTimeAtElection"] {
        append_optime(field, set.elected, &mut election);
    }
    election.append("numVotesNeeded", 1);
    election.append("priorityAtElection", 1.0);
    election.append("electionTimeoutMillis", ELECTION_TIMEOUT_MS);
    for field in ["newTermStartDate", "wMajorityWriteAvailabilityDate"] {
        election.append(field, date_of(set.elected));
    }
    election.finish();
    let mut members = reply.array("members");
    let mut member = members.document();
    append_member(invocation, set, times, &mut member);
    member.finish();
    members.finish();
    Ok(())
}

fn append_optimes(times: ClusterTimes, reply: &mut DocumentBuilder<'_>) {
    let mut optimes = reply.document("optimes");
    append_optime("lastCommittedOpTime", times.durable, &mut optimes);
    optimes.append("lastCommittedWallTime", date_of(times.durable));
    append_optime("readConcernMajorityOpTime", times.durable, &mut optimes);
    append_optime("appliedOpTime", times.written, &mut optimes);
    append_optime("durableOpTime", times.durable, &mut optimes);
    append_optime("writtenOpTime", times.written, &mut optimes);
    optimes.append("lastAppliedWallTime", date_of(times.written));
    optimes.append("lastDurableWallTime", date_of(times.durable));
    optimes.append("lastWrittenWallTime", date_of(times.written));
    optimes.finish();
    reply.append("lastStableRecoveryTimestamp", times.durable);
}

fn append_member(
    invocation: &Invocation<'_>,
    set: &ReplicaSet,
    times: ClusterTimes,
    member: &mut DocumentBuilder<'_>,
) {
    let config = set.config();
    let host = set.host(invocation.connection.transport.local_address());
    let uptime = invocation.server.started.elapsed().as_secs();
    member.append("_id", config.member_id);
    member.append("name", host.as_str());
    member.append("health", 1.0);
    member.append("state", PRIMARY);
    member.append("stateStr", "PRIMARY");
    member.append("uptime", i32::try_from(uptime).unwrap_or(i32::MAX));
    append_optime("optime", times.written, member);
    append_optime("optimeDurable", times.durable, member);
    append_optime("optimeWritten", times.written, member);
    member.append("optimeDate", date_of(times.written));
    member.append("optimeDurableDate", date_of(times.durable));
    member.append("optimeWrittenDate", date_of(times.written));
    member.append("lastAppliedWallTime", date_of(times.written));
    member.append("lastDurableWallTime", date_of(times.durable));
    member.append("lastWrittenWallTime", date_of(times.written));
    member.append("syncSourceHost", "");
    member.append("syncSourceId", -1);
    member.append("infoMessage", "");
    member.append("electionTime", set.elected);
    member.append("electionDate", date_of(set.elected));
    member.append("configVersion", config_version(&config));
    member.append("configTerm", TERM);
    member.append("self", true);
    member.append("lastHeartbeatMessage", "");
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;

    fn run(server: &'static Server, mut command: Document) -> Document {
        command.append("$db", "admin");
        answer(server, &command)
    }

    #[test]
    fn a_standalone_has_no_set() {
        let server: &'static Server = Box::leak(Box::new(Server::in_memory()));
        for command in [
            doc! { "replSetGetStatus": 1 },
            doc! { "replSetGetConfig": 1 },
            doc! { "replSetInitiate": {} },
            doc! { "replSetReconfig": {} },
            doc! { "replSetStepDown": 60 },
        ] {
            assert_eq!(run(server, command).get_i32("code"), Some(76));
        }
        let hello = run(server, doc! { "hello": 1 });
        assert!(hello.get("setName").is_none() && hello.get("$clusterTime").is_none());
    }

    #[test]
    fn a_set_of_one_is_initiated_and_its_member_is_the_primary() {
        let server = Server::in_memory_with(&["--replSet", "rs0", "--advertise", "db:1"]);
        let server: &'static Server = Box::leak(Box::new(server));
        let hello = run(server, doc! { "hello": 1 });
        assert_eq!(hello.get_str("setName"), Some("rs0"));
        assert_eq!(hello.get_i32("setVersion"), Some(1));
        assert_eq!(hello.get_bool("isWritablePrimary"), Some(true));
        assert_eq!(
            (hello.get_str("me"), hello.get_str("primary")),
            (Some("db:1"), Some("db:1"))
        );
        assert!(hello.get("operationTime").is_some());
        let status = run(server, doc! { "replSetGetStatus": 1 });
        assert_eq!(status.get_str("set"), Some("rs0"));
        let state = status.get_path("members.0.stateStr");
        assert_eq!(state.and_then(|state| state.as_str()), Some("PRIMARY"));
        let again = run(server, doc! { "replSetInitiate": {} });
        assert_eq!(
            (again.get_i32("code"), again.get_str("codeName")),
            (Some(23), Some("AlreadyInitialized"))
        );
        // An error tells the time as well.
        assert!(again.get("$clusterTime").is_some());
        assert_eq!(
            run(server, doc! { "replSetStepDown": 60 }).get_i32("code"),
            Some(262)
        );
    }

    #[test]
    fn a_new_configuration_is_a_new_topology() {
        let server = Server::in_memory_with(&["--replSet", "rs0", "--advertise", "db:1"]);
        let server: &'static Server = Box::leak(Box::new(server));
        let config = run(server, doc! { "replSetGetConfig": 1 });
        let config = config.get_document("config").unwrap().to_owned_document();
        assert_eq!(
            run(server, doc! { "replSetReconfig": (config.clone()) }).get_i32("code"),
            Some(103)
        );
        let member = doc! { "_id": 0, "host": "db:2", "tags": { "dc": "east" } };
        let next = doc! { "_id": "rs0", "version": 2, "members": [member] };
        let reply = run(server, doc! { "replSetReconfig": next });
        assert_eq!(reply.get_f64("ok"), Some(1.0), "{reply}");
        let hello = run(server, doc! { "hello": 1 });
        assert_eq!(
            (hello.get_str("me"), hello.get_i32("setVersion")),
            (Some("db:2"), Some(2))
        );
        assert_eq!(
            hello.get_path("tags.dc").and_then(|tag| tag.as_str()),
            Some("east")
        );
        let counter = hello.get_path("topologyVersion.counter");
        assert_eq!(counter.and_then(|counter| counter.as_i64_exact()), Some(1));
    }
}
