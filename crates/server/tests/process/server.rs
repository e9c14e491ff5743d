//! A server process on a directory and ports of its own, ended with the test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const START_TIME: Duration = Duration::from_secs(20);
const STOP_TIME: Duration = Duration::from_secs(20);

/// A directory that goes with the test.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("quarry-process-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub struct Server {
    child: Child,
    pub port: u16,
    lines: Arc<Mutex<Vec<String>>>,
    pub directory: Arc<Directory>,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Server {
        let mut server = Server::spawn(Arc::new(Directory::new()), "memory", arguments);
        server.wait_listening();
        server
    }

    /// Begins to start, on a directory that an earlier server may have left.
    pub fn spawn(directory: Arc<Directory>, engine: &str, arguments: &[&str]) -> Server {
        let command = quarry(&[]);
        Server::spawn_as(command, directory, engine, arguments)
    }

    /// Started as a process of which a shell has set the limits.
    pub fn start_under(limits: &str, engine: &str, arguments: &[&str]) -> Server {
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(format!("{limits}; exec \"$0\" \"$@\""))
            .arg(env!("CARGO_BIN_EXE_quarry"))
            .stdin(Stdio::null());
        let directory = Arc::new(Directory::new());
        let mut server = Server::spawn_as(shell, directory, engine, arguments);
        server.wait_listening();
        server
    }

    fn spawn_as(
        mut command: Command,
        directory: Arc<Directory>,
        engine: &str,
        arguments: &[&str],
    ) -> Server {
        let data = directory.path().join("data");
        let mut child = command
            .args(["serve", "--engine", engine, "--port", "0"])
            .arg("--dbpath")
            .arg(&data)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let output = BufReader::new(child.stdout.take().unwrap());
        let seen = Arc::clone(&lines);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                seen.lock().unwrap().push(line);
            }
        });
        Server {
            child,
            port: 0,
            lines,
            directory,
        }
    }

    /// Waits until the server listens, and learns its port.
    pub fn wait_listening(&mut self) {
        self.port = wait_for(START_TIME, || {
            fs::read_to_string(self.data().join("quarry.port")).ok()
        })
        .expect("the server starts")
        .trim()
        .parse()
        .unwrap();
    }

    /// Ends the process as a crash would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// The first log line that holds `text`.
    pub fn line(&self, text: &str) -> String {
        let find = || {
            self.lines
                .lock()
                .unwrap()
                .iter()
                .find(|line| line.contains(text))
                .cloned()
        };
        wait_for(START_TIME, find)
            .unwrap_or_else(|| panic!("no line with {text}: {:?}", self.lines.lock().unwrap()))
    }

    /// All log lines so far that hold `text`.
    pub fn lines_with(&self, text: &str) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let found = lines.iter().filter(|line| line.contains(text));
        found.cloned().collect()
    }

    /// How many log lines hold `text`, once there are `count` of them; fewer when they do not come.
    pub fn count_lines(&self, text: &str, count: usize) -> usize {
        wait_for(START_TIME, || {
            (self.lines_with(text).len() >= count).then_some(())
        });
        self.lines_with(text).len()
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    pub fn wait(&mut self) -> ExitStatus {
        wait_for(STOP_TIME, || self.child.try_wait().unwrap()).expect("the server stops")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn quarry(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("RUST_BACKTRACE");
    command
}

/// Runs a server that is expected not to start.
pub fn refused(arguments: &[&str]) -> Output {
    quarry(&["serve"]).args(arguments).output().unwrap()
}

/// The text that the process wrote, on both outputs.
pub fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

pub fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
}
