//! Facts that whoever runs a server looks for first, as they stand in `serverStatus().quarry`: the process, the disk, errors, and
//! when data was last made safe.
//!
//! A fact that nobody knows is left out: the kernel does not tell, or it has not happened since the start.

use quarry_bson::{DateTime, DocumentBuilder};

use crate::observe::process_figures::ProcessFigures;
use crate::server::Server;

/// Appends `process`, `disk`, `errors` and `upkeep`.
pub fn append(server: &Server, section: &mut DocumentBuilder<'_>) {
    process(section);
    disk(server, section);
    errors(server, section);
    upkeep(server, section);
}

/// `{cpuSeconds, threads, residentBytes, mappedBytes, openFiles, openFilesMax}`.
fn process(section: &mut DocumentBuilder<'_>) {
    let Some(figures) = ProcessFigures::now() else {
        return;
    };
    let mut shown = section.document("process");
    shown.append("cpuSeconds", figures.cpu_seconds);
    for (name, value) in [
        ("threads", Some(figures.threads)),
        ("residentBytes", Some(figures.resident_bytes)),
        ("mappedBytes", Some(figures.file_bytes)),
        ("openFiles", Some(figures.open_files)),
        ("openFilesMax", figures.open_files_max),
    ] {
        if let Some(value) = value {
            shown.append(name, signed(value));
        }
    }
    shown.finish();
}

/// `{freeBytes, sizeBytes}` of the file system of the data directory.
fn disk(server: &Server, section: &mut DocumentBuilder<'_>) {
    let Ok(space) = rustix::fs::statvfs(&server.config.data_directory) else {
        return;
    };
    let mut shown = section.document("disk");
    let bytes = |blocks: u64| signed(blocks.saturating_mul(space.f_frsize));
    shown.append("freeBytes", bytes(space.f_bavail));
    shown.append("sizeBytes", bytes(space.f_blocks));
    shown.finish();
}

/// `{count, byCode: {code: count}}` since the start.
fn errors(server: &Server, section: &mut DocumentBuilder<'_>) {
    let list = server.errors.list();
    let mut shown = section.document("errors");
    shown.append("count", signed(list.iter().map(|(_, count)| count).sum()));
    let mut by_code = shown.document("byCode");
    for (code, count) in list {
        by_code.append(code.to_string(), signed(count));
    }
    by_code.finish();
    shown.finish();
}

/// `{lastCheckpoint, lastBackup}`: when the engine's durable point last moved, and when the last backup was made.
fn upkeep(server: &Server, section: &mut DocumentBuilder<'_>) {
    let mut shown = section.document("upkeep");
    if let Some(ms) = server.database.last_checkpoint_ms() {
        shown.append("lastCheckpoint", DateTime(signed(ms)));
    }
    if let Some(ms) = server.backups.last_taken_ms() {
        shown.append("lastBackup", DateTime(ms));
    }
    shown.finish();
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use quarry_bson::Document;

    use super::*;

    #[test]
    fn facts_are_there_and_what_has_not_happened_is_left_out() {
        let server = Server::in_memory();
        server.errors.add(11_000);
        server.errors.add(11_000);
        server.errors.add(26);
        let shown = Document::build(|out| append(&server, out));
        let number = |path: &str| shown.get_path(path).and_then(|value| value.as_f64_lossy());
        assert_eq!(number("errors.count"), Some(3.0));
        assert_eq!(number("errors.byCode.11000"), Some(2.0));
        assert!(number("process.residentBytes") > Some(0.0));
        assert!(shown.get_document("upkeep").unwrap().is_empty());
    }
}
