//! A server under valgrind's callgrind, and what it has counted: instructions do not drift as times do.
//!
//! Only the process's own instructions are counted, not the kernel's. The server is told to sleep where it would look for the
//! next request, because that is waiting, and takes as long as the client does.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Launch, Server};

/// The version of valgrind; none where it is not installed.
pub fn version() -> Option<String> {
    let version = Command::new("valgrind").arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&version.stdout).trim().to_owned())
}

/// The launch of a server under callgrind, which writes what it counts to `file` and to files beside it. With
/// `by_thread` each thread is counted for itself.
pub fn launch(file: &Path, by_thread: bool, launch: Launch) -> Launch {
    let by_thread = if by_thread { "yes" } else { "no" };
    let mut arguments = launch.arguments;
    arguments.extend(["--setParameter".into(), "busyPollMicros=0".into()]);
    Launch {
        under: vec![
            "valgrind".into(),
            "--tool=callgrind".into(),
            format!("--separate-threads={by_thread}"),
            format!("--callgrind-out-file={}", file.display()),
        ],
        arguments,
        ..launch
    }
}

/// Counts from 0 again.
pub fn zero(server: &Server) -> io::Result<()> {
    control(server, "--zero")
}

/// Has the server's counts written to the first dump beside `file`, and reads them: the instructions of the whole process, or
/// of that thread which took the most.
pub fn dump(server: &Server, file: &Path) -> io::Result<f64> {
    control(server, "--dump")?;
    let totals = dumps(file)?
        .iter()
        .map(|dump| total(dump))
        .collect::<io::Result<Vec<_>>>()?;
    let most = totals.into_iter().reduce(f64::max);
    most.ok_or_else(|| io::Error::other("callgrind has written no dump"))
}

/// Removes the dumps of an earlier server beside `file`.
pub fn clear(file: &Path) -> io::Result<()> {
    dumps(file)?.iter().try_for_each(std::fs::remove_file)
}

/// The files of the first dump: `file.1`, or `file.1-01`, `file.1-02` ... for the threads. The process writes another one at
/// its end.
fn dumps(file: &Path) -> io::Result<Vec<PathBuf>> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_first = |found: &str| {
        found
            .strip_prefix(&*name)
            .and_then(|rest| rest.strip_prefix(".1"))
            .is_some_and(|thread| thread.is_empty() || thread.starts_with('-'))
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(file.parent().unwrap_or(Path::new(".")))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_first(&name) {
            found.push(path);
        }
    }
    Ok(found)
}

fn total(dump: &Path) -> io::Result<f64> {
    let dump = std::fs::read_to_string(dump)?;
    dump.lines()
        .find_map(|line| line.strip_prefix("totals: "))
        .and_then(|count| count.trim().parse().ok())
        .ok_or_else(|| io::Error::other("callgrind's dump has no totals"))
}

fn control(server: &Server, what: &str) -> io::Result<()> {
    let done = Command::new("callgrind_control")
        .arg(what)
        .arg(server.process_id().to_string())
        .output()?;
    if done.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(io::Error::other(format!("callgrind_control {what}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_dump_is_read_with_all_its_threads() {
        let directory = std::env::temp_dir().join(format!("quarry-dumps-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("counts");
        for name in [
            "counts",
            "counts.1-01",
            "counts.1-02",
            "counts.2-01",
            "counts.10",
        ] {
            std::fs::write(directory.join(name), "events: Ir\ntotals: 12\n").unwrap();
        }
        let mut found = dumps(&file).unwrap();
        found.sort();
        assert_eq!(
            found,
            ["counts.1-01", "counts.1-02"].map(|name| directory.join(name))
        );
        assert_eq!(total(&found[0]).unwrap(), 12.0);
        clear(&file).unwrap();
        assert!(dumps(&file).unwrap().is_empty());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
