//! What no server can beat: two programs that do only the sending.
//!
//! In: the expected bytes of a chain. Out: the same bytes, from `raw-sender` over plain TCP, from `empty-handler` over gRPC as tonic has it, with a
//! look-up in a table for all of its work. Both run in processes of their own, as servers do.

pub mod empty_handler;
pub mod raw_sender;

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
};

use anyhow::{Context, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{questions::Method, wire};

/// A line of the table: hex of the framed request, and of the framed answer.
#[derive(Serialize, Deserialize)]
struct Line {
    method: String,
    request: String,
    answer: String,
}

/// Writes what `empty-handler` answers from.
///
/// # Errors
///
/// When the disk says so.
pub fn write_answers(path: &Path, methods: &[Method]) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for method in methods {
        for question in &method.questions {
            let line = Line {
                method: method.name.to_owned(),
                request: const_hex::encode(&question.request),
                answer: const_hex::encode(&question.full),
            };
            serde_json::to_writer(&mut file, &line)?;
            file.write_all(b"\n")?;
        }
    }
    file.flush()?;
    Ok(())
}

/// By method, then by framed request: the answer's messages.
type Answers = HashMap<String, HashMap<Vec<u8>, Vec<Bytes>>>;

fn read_answers(path: &Path) -> Result<Answers> {
    let mut answers = Answers::new();
    let file = File::open(path).with_context(|| path.display().to_string())?;
    for line in BufReader::new(file).lines() {
        let line: Line = serde_json::from_str(&line?)?;
        let messages = wire::messages(&const_hex::decode(line.answer)?)?;
        answers.entry(line.method).or_default().insert(
            const_hex::decode(line.request)?,
            messages.into_iter().map(Bytes::from).collect(),
        );
    }
    Ok(answers)
}
