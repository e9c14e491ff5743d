//! A finished operation, as the slow log, the profiler and the traces see it.

use std::cell::OnceCell;

use quarry_bson::{Document, RawDocument};
use quarry_database::PlanSummary;
use quarry_query::exec::PlanCacheInfo;
use quarry_timing::Breakdown;

use crate::data::Data;
use crate::dispatch::call::{Call, Outcome, without_secrets};
use crate::net::connections::{Connection, CurrentOperation};
use crate::observe::plan_shape;
use crate::sessions::owner::SessionOwner;
use crate::sessions::session::Lsid;

/// Where the body of an OP_MSG begins: behind the header, the flags and the kind of its first section.
const BODY_OFFSET: usize = quarry_wire::HEADER_BYTES + 5;

/// A finished operation, for those who write about it.
pub struct Ended<'a> {
    data: &'a dyn Data,
    pub connection: &'a Connection,
    pub call: &'a Call<'a>,
    pub outcome: &'a Outcome<'a>,
    /// The reply's document; none where the reply is not in the usual form.
    pub reply: Option<RawDocument<'a>>,
    pub reply_bytes: usize,
    pub breakdown: &'a Breakdown,
    /// The hashes of its query, once somebody has asked for them: they take a parse.
    hashes: OnceCell<Option<PlanCacheInfo>>,
}

impl<'a> Ended<'a> {
    /// `reply` is the whole message that was sent.
    pub fn new(
        data: &'a dyn Data,
        connection: &'a Connection,
        call: &'a Call<'a>,
        outcome: &'a Outcome<'a>,
        reply: &'a [u8],
        breakdown: &'a Breakdown,
    ) -> Ended<'a> {
        Ended {
            data,
            connection,
            call,
            outcome,
            // A checksum may stand behind the document.
            reply: (reply.get(BODY_OFFSET..))
                .and_then(RawDocument::split_first)
                .map(|(document, _)| document),
            reply_bytes: reply.len(),
            breakdown,
            hashes: OnceCell::new(),
        }
    }

    /// `database.collection`, or `database.$cmd` where a command names no collection.
    pub fn namespace(&self) -> String {
        self.outcome.namespace()
    }

    /// The session that the operation ran in, as it is shown, and the transaction or retryable write that it was part of.
    pub fn session(&self) -> Option<(Lsid, Option<i64>)> {
        // Else the connection still has what it noted of the operation before.
        self.outcome.operation.as_ref()?;
        let noted = |running: &CurrentOperation| (running.session, running.transaction);
        let (session, transaction) = self.connection.with_running(noted);
        let login = self.connection.login.lock();
        let owner = login.name().map(SessionOwner::of);
        let owner = owner.unwrap_or(SessionOwner::NOBODY);
        let lsid = Lsid {
            id: session?,
            owner,
        };
        Some((lsid, transaction.map(|of| of.number)))
    }

    pub fn plan(&self) -> Option<&PlanSummary> {
        self.outcome.operation.as_ref()?.plan.get()
    }

    /// The command that made the cursor which a getMore reads, as it may be shown.
    pub fn originating_command(&self) -> Option<Document> {
        let command = self.outcome.cursor.origin.as_ref()?.shown();
        Some(match self.outcome.has_secrets {
            true => without_secrets(command),
            false => Document::from_raw(command),
        })
    }

    /// The hashes of the query, as explain prints them.
    pub fn hashes(&self) -> Option<&PlanCacheInfo> {
        let made = || plan_shape::of(self.data, self.call, self.outcome);
        self.hashes.get_or_init(made).as_ref()
    }

    pub fn millis(&self) -> u64 {
        self.breakdown.wall_ns / 1_000_000
    }
}
