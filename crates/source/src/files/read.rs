//! One block after the other, from either form of file.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Error, Result};

/// The largest block that nodes accept.
///
/// Spec: protocol §7.6 "Block Header Encoding and Consensus".
const MAX_BLOCK_BYTES: usize = 2_000_000;
const BUFFER_BYTES: usize = 256 * 1024;

/// How a file holds its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Lines,
    Records,
}

/// Where a line or record begins, and its number, from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) number: u64,
}

pub(super) struct Blocks {
    path: PathBuf,
    file: BufReader<File>,
    form: Form,
    /// Of the next line or record.
    next: Place,
    text: Vec<u8>,
}

impl Blocks {
    /// At the first block.
    pub(super) fn open(path: &Path) -> Result<Blocks> {
        let mut file = open(path)?;
        let mut first = [0; 4];
        let mut found = 0;
        while found < first.len() {
            match file.read(&mut first[found..]) {
                Ok(0) => break,
                Ok(more) => found += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(path, error)),
            }
        }
        // A block is shorter than 2^24 bytes, so a length ends with a zero byte, which no text holds.
        let form = match first {
            [_, _, _, 0] if found == 4 => Form::Records,
            _ => Form::Lines,
        };
        let start = Place {
            offset: 0,
            number: 1,
        };
        Blocks::open_at(path, form, start)
    }

    pub(super) fn open_at(path: &Path, form: Form, place: Place) -> Result<Blocks> {
        let mut file = open(path)?;
        file.seek(SeekFrom::Start(place.offset))
            .map_err(|error| failed(path, error))?;
        Ok(Blocks {
            path: path.to_owned(),
            file: BufReader::with_capacity(BUFFER_BYTES, file),
            form,
            next: place,
            text: Vec::new(),
        })
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// Reads the next block into `block`. `None` at the end of the file.
    pub(super) fn next(&mut self, block: &mut Vec<u8>) -> Result<Option<Place>> {
        match self.form {
            Form::Lines => self.next_line(block),
            Form::Records => self.next_record(block),
        }
    }

    fn next_line(&mut self, block: &mut Vec<u8>) -> Result<Option<Place>> {
        loop {
            let place = self.next;
            self.text.clear();
            // One byte more than the longest line and its end.
            let limit = 2 * MAX_BLOCK_BYTES as u64 + 3;
            let read = (&mut self.file)
                .take(limit)
                .read_until(b'\n', &mut self.text)
                .map_err(|error| failed(&self.path, error))?;
            if read == 0 {
                return Ok(None);
            }
            self.next.offset += read as u64;
            self.next.number += 1;
            let text = self.text.trim_ascii();
            if text.is_empty() || text.starts_with(b"#") {
                continue;
            }
            if text.len() > 2 * MAX_BLOCK_BYTES {
                return Err(self.wrong(place, "longer than any block"));
            }
            if !text.len().is_multiple_of(2) {
                return Err(self.wrong(
                    place,
                    format!(
                        "expected pairs of hexadecimal digits, found {} characters",
                        text.len()
                    ),
                ));
            }
            block.resize(text.len() / 2, 0);
            // The decoder passes over a prefix, which no node prints.
            let prefixed = text.starts_with(b"0x");
            if prefixed || const_hex::decode_to_slice(text, block).is_err() {
                let at = text.iter().position(|digit| !digit.is_ascii_hexdigit());
                let column = at.map_or(1, |at| at + 1);
                return Err(self.wrong(
                    place,
                    format!(
                        "expected hexadecimal digits, found another character at column {column}"
                    ),
                ));
            }
            return Ok(Some(place));
        }
    }

    fn next_record(&mut self, block: &mut Vec<u8>) -> Result<Option<Place>> {
        let place = self.next;
        let mut length = [0; 4];
        let found = self.fill(&mut length)?;
        if found == 0 {
            return Ok(None);
        }
        let length = u32::from_le_bytes(length) as usize;
        if found < 4 {
            return Err(self.wrong(place, "the file ends inside a record's length"));
        }
        if length > MAX_BLOCK_BYTES {
            return Err(self.wrong(
                place,
                format!("a record of {length} bytes is longer than any block"),
            ));
        }
        block.resize(length, 0);
        let found = self.fill(block)?;
        if found < length {
            return Err(self.wrong(
                place,
                format!("the file ends after {found} of the record's {length} bytes"),
            ));
        }
        self.next.offset += 4 + length as u64;
        self.next.number += 1;
        Ok(Some(place))
    }

    /// Fills as much of `bytes` as the file has.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let mut found = 0;
        while found < bytes.len() {
            match self.file.read(&mut bytes[found..]) {
                Ok(0) => break,
                Ok(more) => found += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&self.path, error)),
            }
        }
        Ok(found)
    }

    /// Something is wrong with the block at `place`.
    pub(super) fn wrong(&self, place: Place, problem: impl Into<String>) -> Error {
        wrong(&self.path, self.form, place, problem)
    }
}

pub(super) fn wrong(path: &Path, form: Form, place: Place, problem: impl Into<String>) -> Error {
    Error::File {
        path: path.to_owned(),
        place: match form {
            Form::Lines => format!("line {}", place.number),
            Form::Records => format!("record {} at byte {}", place.number, place.offset),
        },
        problem: problem.into(),
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| failed(path, error))
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source: Arc::new(error),
    }
}
