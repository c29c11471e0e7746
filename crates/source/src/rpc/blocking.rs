//! The transport of worker threads: a pool of kept-alive connections, one per thread that is asking.

use std::{io::Read, thread, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, header};
use ureq::Agent;

use super::{
    Endpoint,
    gate::Gate,
    transport::{Heard, Transport, Trouble},
};

/// Blocks the calling thread; its futures are ready when first polled.
pub(super) struct Blocking {
    agent: Agent,
    url: String,
    gate: Gate,
    timeout: Duration,
    max_answer_bytes: usize,
}

impl Blocking {
    pub(super) fn new(endpoint: &Endpoint) -> Blocking {
        let connections = endpoint.max_in_flight.get();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // The node is named; an HTTP_PROXY meant for the outside world must not see its credentials.
            .proxy(None)
            .max_redirects(0)
            .user_agent("lightship")
            .timeout_connect(Some(endpoint.connect_timeout))
            .timeout_global(Some(endpoint.timeout))
            .max_idle_connections(connections)
            .max_idle_connections_per_host(connections)
            .build();
        Blocking {
            agent: config.new_agent(),
            url: endpoint.address.url(),
            gate: Gate::new(connections),
            timeout: endpoint.timeout,
            max_answer_bytes: endpoint.max_answer_bytes,
        }
    }

    fn send(&self, body: &[u8], authorization: Option<HeaderValue>) -> Result<Heard, Trouble> {
        let mut request = self
            .agent
            .post(&self.url)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let answer = request.send(body).map_err(trouble_sending)?;
        let status = answer.status().as_u16();
        let mut body = answer.into_body();
        let expected = body.content_length().unwrap_or(0);
        if expected > self.max_answer_bytes as u64 {
            return Err(Trouble::TooLarge);
        }
        // The length is the node's word: it saves growing, up to a size that does no harm.
        let mut bytes = Vec::with_capacity(expected.min(8 << 20) as usize);
        body.as_reader()
            .take(self.max_answer_bytes as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| trouble_reading(ureq::Error::from(error)))?;
        if bytes.len() > self.max_answer_bytes {
            return Err(Trouble::TooLarge);
        }
        Ok(Heard {
            status,
            body: bytes.into(),
        })
    }
}

impl Transport for Blocking {
    async fn exchange(
        &self,
        body: Bytes,
        authorization: Option<HeaderValue>,
    ) -> Result<Heard, Trouble> {
        match self.gate.enter(self.timeout) {
            Some(_pass) => self.send(&body, authorization),
            None => Err(Trouble::TimedOut),
        }
    }

    fn answered(&self) {
        self.gate.answered();
    }

    fn crowded(&self) {
        self.gate.crowded();
    }

    async fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}

fn trouble_sending(error: ureq::Error) -> Trouble {
    use std::io::ErrorKind;
    match error {
        ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
            Trouble::NotSent("no connection in time".to_owned())
        }
        ureq::Error::Timeout(_) => Trouble::TimedOut,
        ureq::Error::Io(error) => match error.kind() {
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe => Trouble::Closed(closed_text(&error.to_string())),
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Trouble::TimedOut,
            _ => Trouble::NotSent(error.to_string()),
        },
        // Bytes came back, and they are not HTTP.
        ureq::Error::Protocol(error) => Trouble::Cut(error.to_string()),
        other => Trouble::NotSent(other.to_string()),
    }
}

fn closed_text(reason: &str) -> String {
    format!("it closed the connection: {reason}")
}

fn trouble_reading(error: ureq::Error) -> Trouble {
    match error {
        ureq::Error::Timeout(_) => Trouble::TimedOut,
        other => Trouble::Cut(format!("the answer broke off: {other}")),
    }
}
