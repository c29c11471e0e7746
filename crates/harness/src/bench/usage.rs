//! What a process uses, as `/proc` counts it.
//!
//! In: a process id. Out: [`Usage`] at a moment; and, second by second, a file of [`Sample`]s. CPU times come in hundredths of a second, so
//! what is timed should take seconds. Bytes read and written are those that went to the disk, not to the page cache.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::record::Sample;

/// From one sample to the next.
const PAUSE: Duration = Duration::from_secs(1);
/// Linux counts CPU times in these on all machines that we know.
const TICKS_A_SECOND: f64 = 100.0;

/// What a process has used so far, and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU seconds in user mode.
    pub cpu_user: f64,
    /// CPU seconds in the kernel.
    pub cpu_system: f64,
    /// Anonymous memory, bytes.
    pub rss_anon: u64,
    /// Pages of mapped files, bytes.
    pub rss_file: u64,
    /// The most memory it ever held, bytes.
    pub rss_peak: u64,
    /// Bytes fetched from the disk.
    pub read_bytes: u64,
    /// Bytes sent to the disk.
    pub written_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

impl Usage {
    /// Of the process `id`.
    ///
    /// # Errors
    ///
    /// When there is none, or it is another's.
    pub fn of(id: u32) -> Result<Usage> {
        let folder = Path::new("/proc").join(id.to_string());
        let read = |name: &str| {
            fs::read_to_string(folder.join(name))
                .with_context(|| format!("{name} of process {id}: has it ended?"))
        };
        let stat = read("stat")?;
        // The name may hold anything, but no parenthesis comes after it.
        let (_, fields) = stat.rsplit_once(')').context("a stat line")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let seconds = |at: usize| -> f64 {
            let ticks: Option<f64> = fields.get(at).and_then(|field| field.parse().ok());
            ticks.unwrap_or(0.0) / TICKS_A_SECOND
        };
        let status = read("status")?;
        // Another user's process shows no I/O; that is no reason to fail.
        let io = read("io").unwrap_or_default();
        let descriptors = fs::read_dir(folder.join("fd")).map_or(0, Iterator::count);
        Ok(Usage {
            cpu_user: seconds(11),
            cpu_system: seconds(12),
            rss_anon: field(&status, "RssAnon:") << 10,
            rss_file: field(&status, "RssFile:") << 10,
            rss_peak: field(&status, "VmHWM:") << 10,
            read_bytes: field(&io, "read_bytes:"),
            written_bytes: field(&io, "write_bytes:"),
            threads: field(&status, "Threads:"),
            descriptors: descriptors as u64,
        })
    }

    /// User and system.
    pub fn cpu(&self) -> f64 {
        self.cpu_user + self.cpu_system
    }
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Samples a process each second until it is dropped.
#[derive(Debug)]
pub struct Sampler {
    suite: Arc<Mutex<String>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Samples the process `id`, appending to `path`; `since` is when the seconds began.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn start(id: u32, path: &Path, since: Instant) -> Result<Sampler> {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| path.display().to_string())?;
        if file.metadata()?.len() == 0 {
            writeln!(file, "{}", Sample::HEAD)?;
        }
        let suite = Arc::new(Mutex::new(String::new()));
        let shown = suite.clone();
        let (stop, stopped) = channel::<()>();
        let thread = thread::spawn(move || {
            while let Ok(usage) = Usage::of(id) {
                let suite = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let sample = Sample {
                    seconds: since.elapsed().as_secs_f64(),
                    suite,
                    cpu_user: usage.cpu_user,
                    cpu_system: usage.cpu_system,
                    rss_anon: usage.rss_anon,
                    rss_file: usage.rss_file,
                    read_bytes: usage.read_bytes,
                    written_bytes: usage.written_bytes,
                    threads: usage.threads,
                    descriptors: usage.descriptors,
                };
                let written = writeln!(file, "{}", sample.line());
                let told = stopped.recv_timeout(PAUSE);
                if written.is_err() || told != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Ok(Sampler {
            suite,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Names what runs from now on.
    pub fn suite(&self, name: &str) {
        let mut suite = self.suite.lock().unwrap_or_else(PoisonError::into_inner);
        name.clone_into(&mut suite);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and there is nothing to do about it if it did.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_what_it_uses() {
        let before = Usage::of(std::process::id()).unwrap();
        assert!(before.rss_anon > 0 && before.threads >= 1 && before.descriptors >= 3);
        let started = Instant::now();
        let mut sum = 0u64;
        while started.elapsed() < Duration::from_millis(60) {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        let after = Usage::of(std::process::id()).unwrap();
        assert!(after.cpu() > before.cpu(), "{sum}");
        assert!(Usage::of(u32::MAX).is_err());
    }

    #[test]
    fn samples_carry_the_suite_that_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.csv");
        let sampler = Sampler::start(std::process::id(), &path, Instant::now()).unwrap();
        sampler.suite("idle-1");
        thread::sleep(PAUSE + Duration::from_millis(300));
        drop(sampler);
        let text = fs::read_to_string(&path).unwrap();
        let samples: Vec<Sample> = text.lines().filter_map(Sample::read).collect();
        assert!(samples.len() >= 2, "{text}");
        assert_eq!(samples[1].suite, "idle-1");
    }
}
