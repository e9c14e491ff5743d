//! MongoDB's Java codec in a process of its own, asked for one sample at a time.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

pub const NAME: &str = "org.mongodb bson";
const ARTIFACT: &str = "org.mongodb:bson:4.11.0";
const JAR: &str = "bson-4.11.0.jar";
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/bson/Peer.java");

pub struct Java {
    directory: PathBuf,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Java {
    /// Starts the peer where Java is present, and Maven or a copy of the library; else says what is missing.
    pub fn start(directory: &Path) -> Option<Self> {
        let directory = directory.join("java");
        fs::create_dir_all(&directory).ok()?;
        let jar = directory.join(JAR);
        if !jar.exists() {
            let copy = [
                format!("-Dartifact={ARTIFACT}"),
                format!("-DoutputDirectory={}", directory.display()),
            ];
            let copied = Command::new("mvn")
                .args(["-q", "-B", "dependency:copy"])
                .args(copy)
                .stdout(Stdio::null())
                .status();
            if !copied.is_ok_and(|status| status.success()) {
                eprintln!("not measured: {NAME}, for Maven could not fetch {ARTIFACT}");
                return None;
            }
        }
        let started = Command::new("java")
            .arg("-cp")
            .arg(&jar)
            .arg(SOURCE)
            .arg(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut process) = started else {
            eprintln!("not measured: {NAME}, for there is no Java");
            return None;
        };
        let (input, output) = (
            process.stdin.take()?,
            BufReader::new(process.stdout.take()?),
        );
        Some(Self {
            directory,
            process,
            input,
            output,
        })
    }

    /// Hands the peer a scenario's document.
    pub fn give(&self, scenario: &str, bytes: &[u8]) -> std::io::Result<()> {
        fs::write(self.directory.join(format!("{scenario}.bson")), bytes)
    }

    /// Nanoseconds that so many calls took; `None` for an operation that the peer does not have.
    pub fn sample(&mut self, case: &str, calls: u32) -> Option<f64> {
        let (scenario, operation) = case.split_once('/')?;
        writeln!(self.input, "{scenario} {operation} {calls}").ok()?;
        self.input.flush().ok()?;
        let mut answer = String::new();
        self.output.read_line(&mut answer).ok()?;
        answer.trim().parse().ok()
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
