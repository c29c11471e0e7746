//! A `lightship` process under test: started on free ports, read line by line, stopped by signal.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    net::TcpStream,
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Far more than anything here takes; a test that needs it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program with nothing of this machine's environment that would change what it does.
pub(crate) fn lightship(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lightship"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LIGHTSHIP_")) {
        command.env_remove(name);
    }
    command.args(arguments).env_remove("RUST_LOG");
    command
}

/// Runs it to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let child = lightship(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait_with_output()));
    told.recv_timeout(PATIENCE)
        .expect("the program ends")
        .unwrap()
}

/// One that runs until it is told to stop.
pub(crate) struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    seen: Vec<String>,
}

impl Running {
    /// Starts it with its temporary files in `temporary`.
    pub(crate) fn start(arguments: &[&str], temporary: &Path) -> Running {
        Running::start_as(lightship(arguments), temporary)
    }

    /// Starts `command`, which runs the program, likewise.
    pub(crate) fn start_as(mut command: Command, temporary: &Path) -> Running {
        let mut child = command
            .env("TMPDIR", temporary)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, lines) = mpsc::channel();
        let output = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Running {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// The first log line that holds `text`.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        if let Some(line) = self.seen.iter().find(|line| line.contains(text)) {
            return line.clone();
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line with '{text}' in {:#?}", self.seen);
            };
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Everything it said until it ended.
    pub(crate) fn all_said(mut self) -> Vec<String> {
        self.terminate();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.seen.push(line);
        }
        std::mem::take(&mut self.seen)
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether a line read so far holds `text`.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.seen.iter().any(|line| line.contains(text))
    }

    /// The address that follows `scheme` in the line where the ports are named.
    pub(crate) fn address(&mut self, scheme: &str) -> String {
        let line = self.line_with(scheme);
        let rest = &line[line.find(scheme).unwrap() + scheme.len()..];
        rest.split_whitespace().next().unwrap().to_owned()
    }

    /// Starts it with `log` to write to, where nothing can be read.
    pub(crate) fn start_mute(arguments: &[&str], temporary: &Path, log: File) -> Running {
        let child = lightship(arguments)
            .env("TMPDIR", temporary)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let (_, lines) = mpsc::channel();
        Running {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Waits until somebody takes connections at `address`.
    pub(crate) fn until_it_listens(&self, address: &str) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "nobody listens at {address}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends SIGTERM and waits: how it ended, and how long that took.
    pub(crate) fn stop(self) -> (ExitStatus, Duration) {
        self.terminate();
        self.ended()
    }

    /// Waits for its end: how it ended, and how long that took.
    pub(crate) fn ended(mut self) -> (ExitStatus, Duration) {
        let told = Instant::now();
        while told.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, told.elapsed());
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the program does not end");
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already gone, if the test stopped it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `GET path` over plain HTTP/1.1: the status line and the body.
pub(crate) fn get(address: &str, path: &str) -> (String, String) {
    use std::io::Write;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: lightship\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}
