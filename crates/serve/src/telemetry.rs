//! What is counted, and how it is shown. No label ever holds anything a client sent.

use std::{sync::OnceLock, time::Instant};

use http::HeaderValue;
use metrics::{Counter, Histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tonic::Code;

use crate::method::Method;

/// Where latencies are cut, in seconds.
const SECONDS: &[f64] = &[
    0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 120.0,
];
const CODES: usize = 17;

/// Makes this process's metrics visible, once; `None` if the process has another recorder already.
///
/// The server does this itself. A program that counts things before it serves calls it earlier.
pub fn install() -> Option<&'static PrometheusHandle> {
    static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let recorder = PrometheusBuilder::new()
                .set_buckets_for_metric(Matcher::Suffix("seconds".into()), SECONDS)
                .expect("the list of buckets is not empty")
                .build_recorder();
            let handle = recorder.handle();
            metrics::set_global_recorder(recorder).ok()?;
            Some(handle)
        })
        .as_ref()
}

/// What is counted of one method.
struct MethodMeters {
    seconds: Histogram,
    bytes: Counter,
    ends: [OnceLock<Counter>; CODES],
}

fn meters(method: Method) -> &'static MethodMeters {
    static METERS: OnceLock<Vec<MethodMeters>> = OnceLock::new();
    let all = METERS.get_or_init(|| {
        Method::ALL
            .iter()
            .map(|method| MethodMeters {
                seconds: metrics::histogram!("lightship_serve_call_seconds", "method" => method.name()),
                bytes: metrics::counter!("lightship_serve_sent_bytes_total", "method" => method.name()),
                ends: Default::default(),
            })
            .collect()
    });
    &all[method as usize]
}

/// One call, counted when it ends, however it ends.
pub(crate) struct Call {
    method: Method,
    began: Instant,
    sent: u64,
    /// What the client was told; `None` if it left before.
    code: Option<Code>,
}

impl Call {
    /// A call that begins now.
    pub(crate) fn begin(method: Method) -> Call {
        Call {
            method,
            began: Instant::now(),
            sent: 0,
            code: None,
        }
    }

    /// Notes the code that the answer carries.
    pub(crate) fn note(&mut self, status: Option<&HeaderValue>) {
        if let Some(status) = status {
            self.code = Some(Code::from_bytes(status.as_bytes()));
        }
    }

    /// Notes bytes of the answer.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let code = self.code.unwrap_or(Code::Cancelled);
        let meters = meters(self.method);
        meters.seconds.record(self.began.elapsed().as_secs_f64());
        meters.bytes.increment(self.sent);
        meters.ends[code as usize]
            .get_or_init(|| {
                metrics::counter!(
                    "lightship_serve_calls_total",
                    "method" => self.method.name(),
                    "code" => code_label(code)
                )
            })
            .increment(1);
    }
}

fn code_label(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
