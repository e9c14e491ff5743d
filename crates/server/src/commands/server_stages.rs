//! The first stages of a pipeline whose documents the server makes: what it knows of its collections, sessions and operations. A
//! stage is a row here and a function that makes its documents; what a user needs for it stands with the command `aggregate`.

use quarry_bson::Document;
use quarry_query::pipeline::{Documents, Input, Specification};

use super::stage_surroundings::Surroundings;
use super::{
    backup_cursor, change_stream, coll_stats, current_op, index_stats, list_sessions,
    plan_cache_stats, query_settings, query_stats,
};
use crate::dispatch::error::Result;

type Make = fn(Surroundings<'_, '_>, Specification<'_>) -> Result<Vec<Document>>;

/// A row of the table.
pub struct ServerStage {
    pub name: &'static str,
    /// Where its documents come from, for the rules on what a pipeline may read.
    input: Input,
    /// Whether a client that is strict about API version 1 may use it.
    pub is_in_api_1: bool,
    make: Make,
}

const fn of_collection(name: &'static str, make: Make) -> ServerStage {
    ServerStage {
        name,
        input: Input::MadeOfCollection,
        is_in_api_1: false,
        make,
    }
}

const fn of_server(name: &'static str, make: Make) -> ServerStage {
    ServerStage {
        input: Input::MadeOfNothing,
        ..of_collection(name, make)
    }
}

const fn in_api_1(stage: ServerStage) -> ServerStage {
    ServerStage {
        is_in_api_1: true,
        ..stage
    }
}

/// The number of the stages.
pub const LEN: usize = 8;

/// The table.
pub static STAGES: [ServerStage; LEN] = [
    in_api_1(of_collection("$collStats", coll_stats::documents)),
    of_server("$currentOp", current_op::documents),
    of_collection("$indexStats", index_stats::documents),
    of_server("$listLocalSessions", list_sessions::local),
    of_collection("$listSessions", list_sessions::stored),
    of_collection("$planCacheStats", plan_cache_stats::documents),
    of_server(query_settings::STAGE, query_settings::documents),
    of_server("$queryStats", query_stats::documents),
];

/// The first stages that need a privilege of their own in place of that to read the collection.
pub const WITH_OWN_NEEDS: &[&str] = &[
    backup_cursor::STAGE,
    "$collStats",
    "$currentOp",
    "$indexStats",
    "$listLocalSessions",
    "$listSessions",
    "$planCacheStats",
    query_settings::STAGE,
    "$queryStats",
];

impl ServerStage {
    /// Makes the stage, with its documents.
    pub fn stage(
        &self,
        surroundings: Surroundings<'_, '_>,
        specification: Specification<'_>,
    ) -> Result<Documents> {
        let documents = (self.make)(surroundings, specification)?;
        Ok(Documents::new(specification, documents, self.input))
    }
}

/// Whether the stage tells of now, not of a collection at one moment.
pub fn is_of_now(name: &str) -> bool {
    name == backup_cursor::STAGE
        || name == change_stream::STAGE
        || STAGES.iter().any(|stage| stage.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_needs_of_its_own() {
        for stage in &STAGES {
            assert!(WITH_OWN_NEEDS.contains(&stage.name), "{}", stage.name);
        }
    }
}
