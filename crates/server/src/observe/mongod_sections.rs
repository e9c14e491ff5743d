//! Sections of `serverStatus` that tools for mongod read without looking whether they are there: `asserts`, `globalLock` and
//! `extra_info`. Their figures are this server's; what it has no notion of is 0.

use quarry_bson::DocumentBuilder;
use quarry_timing::Phase;

use crate::observe::process_figures::ProcessFigures;
use crate::server::Server;

/// Appends those that are wanted.
pub fn append(server: &Server, is_wanted: &dyn Fn(&str) -> bool, reply: &mut DocumentBuilder<'_>) {
    if is_wanted("asserts") {
        asserts(server, reply);
    }
    if is_wanted("globalLock") {
        global_lock(server, reply);
    }
    if is_wanted("extra_info") {
        extra_info(reply);
    }
}

/// `user` are the errors that clients were told since the start.
fn asserts(server: &Server, reply: &mut DocumentBuilder<'_>) {
    let told = server.errors.list().iter().map(|(_, count)| count).sum();
    let mut section = reply.document("asserts");
    for (name, count) in [
        ("regular", 0),
        ("warning", 0),
        ("msg", 0),
        ("user", signed(told)),
        ("tripwire", 0),
        ("rollovers", 0),
    ] {
        section.append(name, count);
    }
    section.finish();
}

/// Clients whose operation runs, and those whose operation waits for a lock, as readers and writers.
#[derive(Default)]
struct Clients {
    readers: i64,
    writers: i64,
    others: i64,
}

impl Clients {
    fn count(&mut self, command: &str) {
        match command {
            "find" | "aggregate" | "count" | "distinct" | "getMore" => self.readers += 1,
            "insert" | "update" | "delete" | "findAndModify" | "bulkWrite" => self.writers += 1,
            _ => self.others += 1,
        }
    }

    fn append(&self, name: &str, section: &mut DocumentBuilder<'_>) {
        let mut shown = section.document(name);
        shown.append("total", self.readers + self.writers + self.others);
        shown.append("readers", self.readers);
        shown.append("writers", self.writers);
        shown.finish();
    }
}

/// There is no global lock: the queue are the operations that wait for a collection, a record or their turn.
fn global_lock(server: &Server, reply: &mut DocumentBuilder<'_>) {
    let (mut queue, mut active) = (Clients::default(), Clients::default());
    for connection in server.connections.list_of_clients() {
        let glimpse = connection.glimpse();
        // A hello that waits for news is at no work.
        if glimpse.as_ref().is_some_and(|glimpse| glimpse.is_paused) {
            continue;
        }
        let waits = glimpse.is_some_and(|glimpse| glimpse.phase == Some(Phase::LockWait));
        connection.with_running(|running| {
            if running.is_active() {
                let clients = if waits { &mut queue } else { &mut active };
                clients.count(running.command_name);
            }
        });
    }
    let uptime = server.started.elapsed().as_micros();
    let mut section = reply.document("globalLock");
    section.append("totalTime", i64::try_from(uptime).unwrap_or(i64::MAX));
    queue.append("currentQueue", &mut section);
    active.append("activeClients", &mut section);
    section.finish();
}

/// Figures of the process, as far as the kernel tells them.
fn extra_info(reply: &mut DocumentBuilder<'_>) {
    let mut section = reply.document("extra_info");
    section.append("note", "fields vary by platform");
    if let Some(figures) = ProcessFigures::now() {
        let micros = |seconds: f64| (seconds * 1e6) as i64;
        let user = figures.cpu_seconds - figures.kernel_seconds;
        section.append("user_time_us", micros(user));
        section.append("system_time_us", micros(figures.kernel_seconds));
        section.append("page_reclaims", signed(figures.page_reclaims));
        section.append("page_faults", signed(figures.page_faults));
        section.append("threads", signed(figures.threads));
    }
    section.finish();
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
