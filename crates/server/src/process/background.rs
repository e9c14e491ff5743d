//! A server in the background: `--fork` and `--shutdown`.
//!
//! Forking a process that may have threads is not for safe code, so the server is started once more: a first process starts
//! a second one with the same command line, waits for its word that it serves, and ends. The second has a session of its
//! own, so that no terminal takes it along, and gives its outputs away with that word. What goes wrong before is seen on
//! the terminal, and its exit code is the first one's.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process, setsid};

use crate::process::config::{Config, EXIT_BAD_OPTIONS};
use crate::process::data_directory::LOCK_FILE;

/// Set for the second process.
const IS_SECOND: &str = "QUARRY_SERVES_IN_BACKGROUND";
const READY: &[u8] = b"ready\n";
/// mongod's exit code for `--shutdown` where no server runs.
const EXIT_NOT_RUNNING: u8 = 1;

/// Whether this process was started by one that waits for its word.
pub fn is_second() -> bool {
    std::env::var_os(IS_SECOND).is_some()
}

/// Starts the server in the background and waits until it serves or has failed.
pub fn start() -> ExitCode {
    println!("about to fork child process, waiting until server is ready for connections.");
    match start_second() {
        Ok(0) => {
            println!("child process started successfully, parent exiting");
            ExitCode::SUCCESS
        }
        Ok(code) => {
            eprintln!("ERROR: child process failed, exited with {code}");
            ExitCode::from(code)
        }
        Err(error) => {
            eprintln!("quarry: fork: {error}");
            ExitCode::from(EXIT_BAD_OPTIONS)
        }
    }
}

/// The exit code of the second process, 0 once it serves.
fn start_second() -> io::Result<u8> {
    let mut arguments = std::env::args_os();
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let mut second = command
        .args(arguments)
        .env(IS_SECOND, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    println!("forked process: {}", second.id());
    let mut said = Vec::new();
    if let Some(mut output) = second.stdout.take() {
        // It ends with the word, or with the process.
        (&mut output)
            .take(READY.len() as u64)
            .read_to_end(&mut said)?;
        if said == READY {
            return Ok(0);
        }
        // Something else was said: why it does not serve.
        output.read_to_end(&mut said)?;
        io::stdout().write_all(&said)?;
    }
    let code = second.wait()?.code().unwrap_or(i32::from(EXIT_BAD_OPTIONS));
    Ok(u8::try_from(code).unwrap_or(EXIT_BAD_OPTIONS))
}

/// Leaves the session of whoever started this process.
pub fn leave_session() -> io::Result<()> {
    setsid()?;
    Ok(())
}

/// Tells the first process that clients can connect, and gives the outputs away: a pipe that nobody reads, and a terminal
/// that is somebody else's from now on.
pub fn say_ready() -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(READY)?;
    output.flush()?;
    let nothing = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

/// Stops the server that uses the data directory, and waits until it is gone.
pub fn shut_down(config: &Config) -> ExitCode {
    match stop_holder(&config.data_directory) {
        Ok(Some(pid)) => {
            println!("process with pid {pid} has stopped");
            ExitCode::SUCCESS
        }
        Ok(None) => {
            eprintln!(
                "There doesn't seem to be a server running with dbpath: {}",
                config.data_directory.display()
            );
            ExitCode::from(EXIT_NOT_RUNNING)
        }
        Err(error) => {
            eprintln!(
                "quarry: shutdown: data directory `{}`: {error}",
                config.data_directory.display()
            );
            ExitCode::from(EXIT_NOT_RUNNING)
        }
    }
}

/// The process that held the directory's lock; none if nobody did.
fn stop_holder(directory: &Path) -> io::Result<Option<i32>> {
    let mut lock = match File::open(directory.join(LOCK_FILE)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // The kernel takes the lock from a process that ended; the number in the file stays.
    if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(None);
    }
    let mut text = String::new();
    lock.read_to_string(&mut text)?;
    let number: i32 = text
        .trim()
        .parse()
        .map_err(|_| io::Error::other("its lock names no process"))?;
    let process =
        Pid::from_raw(number).ok_or_else(|| io::Error::other("its lock names no process"))?;
    println!("killing process with pid: {number}");
    kill_process(process, Signal::TERM)?;
    flock(&lock, FlockOperation::LockShared)?;
    Ok(Some(number))
}
