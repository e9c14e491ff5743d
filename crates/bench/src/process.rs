//! Quarry as a process of its own: started on a free port over a fresh directory, stopped by its pid.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// How long a start may take before the bench gives up.
const START_MAX: Duration = Duration::from_secs(30);

/// The unit of `/proc/<pid>/stat`, the same on every machine.
const TICKS_A_SECOND: f64 = 100.0;

const POLL: Duration = Duration::from_millis(2);

/// A running server. Dropping it kills it; its directory stays.
pub struct Server {
    child: Child,
    /// The port that the server listens on.
    pub port: u16,
    /// The directory of its data.
    pub directory: PathBuf,
    engine: String,
    launch: Launch,
}

/// How a server is started, where that is not as usual.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// In place of [`Server::binary`].
    pub binary: Option<PathBuf>,
    /// A program that runs the server, and its arguments.
    pub under: Vec<String>,
    /// Beyond those that every server of a bench gets.
    pub arguments: Vec<String>,
}

impl Server {
    /// The binary: `$QUARRY`, or the release build in the target directory.
    pub fn binary() -> PathBuf {
        std::env::var_os("QUARRY")
            .map_or_else(|| target_directory().join("release/quarry"), PathBuf::from)
    }

    /// Starts a server over `directory` with default options, and waits until it listens.
    pub fn start(engine: &str, directory: &Path) -> io::Result<Server> {
        Server::launch(engine, directory, Launch::default())
    }

    /// Like `start`, with options.
    pub fn launch(engine: &str, directory: &Path, launch: Launch) -> io::Result<Server> {
        fs::create_dir_all(directory)?;
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(directory.join("quarry.log"))?;
        let _ = fs::remove_file(directory.join("quarry.port"));
        let binary = launch.binary.clone().unwrap_or_else(Server::binary);
        let mut words = launch
            .under
            .iter()
            .map(Into::into)
            .collect::<Vec<OsString>>();
        words.push(binary.clone().into());
        let child = Command::new(&words[0])
            .args(&words[1..])
            .args([
                "serve",
                "--port",
                "0",
                "--adminPort",
                "off",
                "--engine",
                engine,
                "--dbpath",
            ])
            .arg(directory)
            .args(&launch.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", binary.display()))
            })?;
        let mut server = Server {
            child,
            port: 0,
            directory: directory.to_owned(),
            engine: engine.to_owned(),
            launch,
        };
        server.port = server.wait_for_port()?;
        Ok(server)
    }

    /// The server's address, as drivers take it.
    pub fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}/", self.port)
    }

    /// The server's process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory now, in bytes.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        resident_bytes(self.child.id())
    }

    /// Asks it to end, waits, and starts it again over the same directory.
    pub fn restart(mut self) -> io::Result<Server> {
        self.stop()?;
        Server::launch(&self.engine, &self.directory, self.launch.clone())
    }

    /// SIGTERM by pid, then wait.
    pub fn stop(&mut self) -> io::Result<()> {
        Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()?;
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("the server ended with {status}")))
        }
    }

    fn wait_for_port(&mut self) -> io::Result<u16> {
        let started = Instant::now();
        let file = self.directory.join("quarry.port");
        loop {
            if let Some(port) = fs::read_to_string(&file)
                .ok()
                .and_then(|text| text.trim().parse().ok())
            {
                return Ok(port);
            }
            let log = self.directory.join("quarry.log");
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!(
                    "the server ended with {status}: see {}",
                    log.display()
                )));
            }
            if started.elapsed() > START_MAX {
                return Err(io::Error::other(format!(
                    "no `quarry.port` in {START_MAX:?}: see {}",
                    log.display()
                )));
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The resident memory of a process on this machine, in bytes.
pub fn resident_bytes(process_id: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process_id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok());
    let kibibytes: u64 = kibibytes.ok_or_else(|| io::Error::other("no VmRSS in /proc"))?;
    Ok(kibibytes * 1024)
}

/// The processor time that a process has taken so far, in user and in kernel mode, in seconds.
pub fn processor_seconds(process_id: u32) -> io::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process_id}/stat"))?;
    // The second field is the program's name in parentheses, which may hold anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Option<Vec<u64>> = (after_name.split_whitespace())
        .skip(11)
        .take(2)
        .map(|field| field.parse().ok())
        .collect();
    match ticks.as_deref() {
        Some([user, kernel]) => Ok((user + kernel) as f64 / TICKS_A_SECOND),
        _ => Err(io::Error::other("no processor time in /proc")),
    }
}

/// `$CARGO_TARGET_DIR`, or the default that every checkout shares.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || {
            let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
            home.join(".cache/quarry/target")
        },
        PathBuf::from,
    )
}
