//! A small blocking JSON-RPC client for the fixtures.
//!
//! Trusts its node: it is for a `zebrad` that the harness started itself. Every call has a timeout.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// The largest answer read: above Zebra's own bound of 50 MiB for one answer.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// A node's refusal of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its number.
    pub code: i64,
    /// Its words.
    pub message: String,
}

/// One node's JSON-RPC address.
#[derive(Clone, Debug)]
pub struct JsonRpc {
    url: String,
    agent: ureq::Agent,
    cookie: Option<PathBuf>,
}

impl JsonRpc {
    /// A client of `url` (`http://host:port`) whose calls end after `timeout`.
    pub fn new(url: impl Into<String>, timeout: Duration) -> JsonRpc {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .build()
            .into();
        JsonRpc {
            url: url.into(),
            agent,
            cookie: None,
        }
    }

    /// The same client, sending the secret in `cookie` (`user:password`), read anew for each call: a node rewrites it at every start.
    pub fn with_cookie(mut self, cookie: PathBuf) -> JsonRpc {
        self.cookie = Some(cookie);
        self
    }

    /// The address it was made with.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Calls `method` and returns its result.
    ///
    /// # Errors
    ///
    /// When the node cannot be reached in time, or answers with an error.
    pub fn call(&self, method: &str, params: Value) -> Result<Value> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self
            .post(&request.to_string())
            .with_context(|| format!("calling {method}"))?;
        result(&answer).with_context(|| format!("calling {method}"))
    }

    /// Calls `method` and returns its result, or the node's refusal.
    ///
    /// # Errors
    ///
    /// When the node cannot be reached in time, or answers with what is no JSON-RPC.
    pub fn ask(&self, method: &str, params: Value) -> Result<Result<Value, Refused>> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self
            .post(&request.to_string())
            .with_context(|| format!("calling {method}"))?;
        let mut answer: Value = serde_json::from_str(&answer)?;
        match answer.get("error").filter(|error| !error.is_null()) {
            Some(error) => Ok(Err(Refused {
                code: error["code"].as_i64().unwrap_or(0),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
            })),
            None => Ok(Ok(answer["result"].take())),
        }
    }

    /// Sends one batch of `calls` and returns their results in order.
    ///
    /// # Errors
    ///
    /// As [`JsonRpc::call`], if any of them fails.
    pub fn batch(&self, calls: impl Iterator<Item = (&'static str, Value)>) -> Result<Vec<Value>> {
        let requests: Vec<Value> = calls
            .enumerate()
            .map(|(id, (method, params))| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .collect();
        let answer = self
            .post(&Value::from(requests).to_string())
            .context("sending a batch")?;
        let mut answers = match serde_json::from_str(&answer).context("the answer to a batch")? {
            Value::Array(answers) => answers,
            other => bail!("a batch was answered with {other}"),
        };
        answers.sort_by_key(|answer| answer["id"].as_u64());
        answers.into_iter().map(take_result).collect()
    }

    /// Posts `body` and returns the answer as text.
    ///
    /// # Errors
    ///
    /// When the node cannot be reached in time, or the answer's status is no success.
    pub fn post(&self, body: &str) -> Result<String> {
        let mut request = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json");
        if let Some(cookie) = &self.cookie {
            let secret = BASE64_STANDARD.encode(fs::read(cookie).context("the cookie file")?);
            request = request.header("authorization", format!("Basic {secret}"));
        }
        let mut response = request.send(body)?;
        let status = response.status();
        let text = response
            .body_mut()
            .with_config()
            .limit(MAX_ANSWER_BYTES)
            .read_to_string()?;
        if !status.is_success() {
            bail!("status {status}: {text}");
        }
        Ok(text)
    }
}

fn result(answer: &str) -> Result<Value> {
    take_result(serde_json::from_str(answer)?)
}

fn take_result(mut answer: Value) -> Result<Value> {
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        bail!("the node answers {error}");
    }
    Ok(answer["result"].take())
}
