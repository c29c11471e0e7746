//! A second opinion on calls a second: [ghz](https://ghz.sh), a load generator that nobody here wrote.
//!
//! In: where it is installed, a server, a method's questions. Out: calls a second and the time that 99 of a hundred stay below, as ghz counts them. It
//! looks at status codes only, so a figure of it says nothing of the answers: it stands beside one of ours, whose answers were proved.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use prost_reflect::{DescriptorPool, DynamicMessage, Value};
use serde::Deserialize;

use super::{plan::GhzPlan, questions::Method, server::program, wire::messages};
use crate::{
    process::{Process, output_of},
    proto::{DESCRIPTORS, SERVICE},
};

/// Beyond the time it is told: to start, to connect, to end.
const PATIENCE: Duration = Duration::from_secs(30);
const REMEDY: &str = "install ghz as bench/README.md says, name it with --program ghz=PATH, or take ghz out of the plan's rpc suite";
const POLL: Duration = Duration::from_millis(20);
/// As our own callers allow (`crates/harness/src/bench/ask.rs`).
const CALL_TIMEOUT: &str = "30s";
/// Enough for a list of every unspent output of an address; grpc-go allows 4 MB unless told.
const MOST_ANSWER_BYTES: &str = "256MB";

/// An installed ghz.
pub struct Ghz {
    program: PathBuf,
    /// What it says of its version.
    pub version: String,
    folder: PathBuf,
}

/// What it found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opinion {
    /// Calls a second that were answered with OK.
    pub rate: f64,
    /// 99 of a hundred took at most so many milliseconds.
    pub p99: f64,
}

/// What ghz writes, as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    count: u64,
    rps: f64,
    #[serde(default)]
    status_code_distribution: BTreeMap<String, u64>,
    #[serde(default)]
    error_distribution: BTreeMap<String, u64>,
    latency_distribution: Option<Vec<Latency>>,
}

#[derive(Deserialize)]
struct Latency {
    percentage: u32,
    /// Nanoseconds.
    latency: f64,
}

impl Ghz {
    /// Looks for it; its files go into `folder`.
    ///
    /// # Errors
    ///
    /// When it is not installed, or cannot be run.
    pub fn find(named: &str, folder: &Path) -> Result<Ghz> {
        let program = program(named).context(REMEDY)?;
        let version = version(Command::new(&program).arg("--version"), PATIENCE)
            .with_context(|| format!("{} --version: {REMEDY}", program.display()))?;
        fs::write(folder.join("protocol"), DESCRIPTORS)?;
        Ok(Ghz {
            program,
            version,
            folder: folder.to_owned(),
        })
    }

    /// Asks the method's questions in turns by `workers`, each on a connection of its own, for the plan's time.
    ///
    /// # Errors
    ///
    /// When a call was not answered with OK, or ghz fails or does not end.
    pub fn ask(
        &self,
        plan: &GhzPlan,
        server: SocketAddr,
        method: &Method,
        workers: u32,
    ) -> Result<Opinion> {
        let path = |name: &str| self.folder.join(name);
        fs::write(path("questions.json"), questions(method)?)?;
        let out = path("answer.json");
        // Of the call before this one.
        fs::remove_file(&out).ok();
        let mut command = Command::new(&self.program);
        command
            .arg("--insecure")
            .args(["--concurrency", &workers.to_string()])
            .args(["--connections", &workers.to_string()])
            .args(["--duration", &format!("{}ms", plan.time.as_millis())])
            // Calls on their way when time is up are neither waited for nor counted.
            .args(["--duration-stop", "ignore"])
            .args(["--timeout", CALL_TIMEOUT])
            .args(["--max-recv-message-size", MOST_ANSWER_BYTES])
            .args(["--call", &format!("{SERVICE}.{}", method.name)])
            .arg("--protoset")
            .arg(path("protocol"))
            .arg("--data-file")
            .arg(path("questions.json"))
            .args(["--format", "json", "--output"])
            .arg(&out)
            .arg(server.to_string());
        let mut process = Process::start(&mut command, &path("ghz.log"))?;
        let began = Instant::now();
        loop {
            match process.exited()? {
                Some(status) if status.success() => break,
                Some(status) => bail!("ghz ended with {status}: {}", process.log_tail()),
                None if began.elapsed() > plan.time + PATIENCE => {
                    bail!("ghz did not end in {:?}", plan.time + PATIENCE)
                }
                None => std::thread::sleep(POLL),
            }
        }
        let text = fs::read(&out).context("ghz wrote no report")?;
        opinion(&text)
    }
}

/// What it says of its version, in a line.
fn version(command: &mut Command, patience: Duration) -> Result<String> {
    let said = output_of(command, patience)?;
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line: String = line.unwrap_or_default().chars().take(100).collect();
    ensure!(
        said.status.success() && !line.is_empty(),
        "it ended with {} and said '{line}', which is no version",
        said.status
    );
    Ok(line)
}

/// What a report says; an error where a call failed.
fn opinion(text: &[u8]) -> Result<Opinion> {
    let report: Report = serde_json::from_slice(text).context("ghz's report")?;
    let right = report.status_code_distribution.get("OK").copied();
    ensure!(report.count > 0, "ghz counted no call");
    ensure!(
        right == Some(report.count) && report.error_distribution.is_empty(),
        "of {} calls of ghz {} were answered with OK; {:?}",
        report.count,
        right.unwrap_or(0),
        report.error_distribution
    );
    let latencies = report.latency_distribution.unwrap_or_default();
    let p99 = latencies.iter().find(|each| each.percentage == 99);
    let p99 = p99.context("ghz's report has no 99th percentile")?.latency / 1e6;
    ensure!(
        report.rps.is_finite() && p99.is_finite(),
        "ghz's figures are no numbers"
    );
    Ok(Opinion {
        rate: report.rps,
        p99,
    })
}

/// A method's requests as ghz reads them: a list that it goes through again and again.
fn questions(method: &Method) -> Result<String> {
    let protocol = DescriptorPool::decode(DESCRIPTORS)?;
    let service = protocol
        .get_service_by_name(SERVICE)
        .context("the protocol holds its service")?;
    let input = service
        .methods()
        .find(|each| each.name() == method.name)
        .with_context(|| format!("the protocol has no {}", method.name))?
        .input();
    let mut list = Vec::new();
    for question in &method.questions {
        let request = messages(&question.request)?;
        let request = request.first().context("a request without a message")?;
        let message = DynamicMessage::decode(input.clone(), &request[..])?;
        list.push(json_of_message(&message));
    }
    Ok(serde_json::Value::Array(list).to_string())
}

/// As the canonical JSON form of protocol buffers has it.
fn json_of_message(message: &DynamicMessage) -> serde_json::Value {
    let fields = message.fields().map(|(field, value)| {
        let value = json_of(value);
        (field.json_name().to_owned(), value)
    });
    debug_assert!(message.unknown_fields().next().is_none());
    serde_json::Value::Object(fields.collect())
}

fn json_of(value: &Value) -> serde_json::Value {
    use base64::{Engine, engine::general_purpose::STANDARD};
    match value {
        Value::Bool(value) => (*value).into(),
        Value::I32(value) | Value::EnumNumber(value) => (*value).into(),
        Value::U32(value) => (*value).into(),
        // Beyond what every reader of JSON takes for a whole number.
        Value::I64(value) => value.to_string().into(),
        Value::U64(value) => value.to_string().into(),
        Value::F32(value) => f64::from(*value).into(),
        Value::F64(value) => (*value).into(),
        Value::String(value) => value.clone().into(),
        Value::Bytes(value) => STANDARD.encode(value).into(),
        Value::Message(value) => json_of_message(value),
        Value::List(values) => values.iter().map(json_of).collect(),
        // The protocol has no maps.
        Value::Map(_) => serde_json::Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bench::{questions::Question, wire::framed},
        proto::{AddressList, BlockId, TxFilter},
    };

    fn asked(name: &'static str, request: &impl prost::Message) -> String {
        let question = Question {
            request: framed(request),
            answer: Vec::new(),
            full: Vec::new(),
        };
        questions(&Method {
            name,
            questions: vec![question],
        })
        .unwrap()
    }

    #[test]
    fn a_question_is_told_in_the_canonical_form() {
        let id = BlockId {
            height: 1_000,
            hash: Vec::new(),
        };
        assert_eq!(asked("GetBlock", &id), r#"[{"height":"1000"}]"#);
        let filter = TxFilter {
            block: Some(id),
            index: 3,
            hash: vec![0xff, 0],
        };
        assert_eq!(
            asked("GetTransaction", &filter),
            r#"[{"block":{"height":"1000"},"hash":"/wA=","index":"3"}]"#
        );
        let list = AddressList {
            addresses: vec!["a".into(), "b".into()],
        };
        let told = asked("GetTaddressBalance", &list);
        assert_eq!(told, r#"[{"addresses":["a","b"]}]"#);
    }

    #[test]
    fn a_ghz_that_hangs_or_is_none_is_told_with_a_remedy() {
        let told = |script: &str| {
            let mut command = Command::new("sh");
            version(command.args(["-c", script]), Duration::from_millis(500))
        };
        assert_eq!(told("echo; echo v0.120.0; echo more").unwrap(), "v0.120.0");
        assert_eq!(told("echo dev >&2").unwrap(), "dev");
        for odd in ["exec sleep 600", "echo v1; exit 1", "echo", "kill -9 $$"] {
            assert!(told(odd).is_err(), "{odd}");
        }
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("ghz");
        // Ends with a failure, whatever it is told.
        let other = Path::new("/bin/false");
        for named in [missing.as_path(), other] {
            let error = Ghz::find(named.to_str().unwrap(), folder.path())
                .err()
                .unwrap();
            let told = format!("{error:#}");
            assert!(
                told.contains("install ghz") && told.contains("--program"),
                "{told}"
            );
            assert!(told.contains(named.to_str().unwrap()), "{told}");
        }
    }

    #[test]
    fn a_report_with_a_failed_call_is_no_opinion() {
        let report = |codes: &str, errors: &str| {
            format!(
                r#"{{"count":10,"rps":200.5,"statusCodeDistribution":{codes},"errorDistribution":{errors},
                "latencyDistribution":[{{"percentage":50,"latency":1000000}},{{"percentage":99,"latency":2500000}}]}}"#
            )
        };
        let right = opinion(report(r#"{"OK":10}"#, "{}").as_bytes()).unwrap();
        assert_eq!((right.rate, right.p99), (200.5, 2.5));
        for (codes, errors) in [
            (r#"{"OK":9,"Unavailable":1}"#, r#"{"gone":1}"#),
            (r#"{"OK":9}"#, "{}"),
            ("{}", "{}"),
        ] {
            assert!(
                opinion(report(codes, errors).as_bytes()).is_err(),
                "{codes}"
            );
        }
        assert!(opinion(br#"{"count":0,"rps":0,"latencyDistribution":null}"#).is_err());
    }
}
