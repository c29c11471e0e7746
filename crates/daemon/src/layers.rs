//! Where each setting comes from: a flag, else its environment variable, else the file, else the default.
//!
//! In: the process's arguments and, where `--config` or `LIGHTSHIP_CONFIG` names one, a TOML file. Out: the command with its values, and
//! for each value its origin. The file's keys are the flags of `serve` without the dashes in front; each of its values is read exactly
//! as the flag's would be.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt::Write as _,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use clap::{Arg, ArgMatches, CommandFactory as _, FromArgMatches as _, parser::ValueSource};
use toml::de::{DeTable, DeValue};

use crate::cli::{Cli, Command};

/// Longer files are no settings.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The commands that a file counts for.
const WITH_FILE: [&str; 4] = ["serve", "index", "config", "check"];
/// Less alike than this is no misspelling.
const ALIKE: f64 = 0.75;

/// What is wrong with a file of settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read the settings in {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is longer than settings can be; none of it is used.
    #[error("{path} is longer than {MAX_FILE_BYTES} bytes: --config must name a file of settings")]
    TooLong {
        /// Which.
        path: PathBuf,
    },
    /// It is no TOML.
    #[error("{path} line {line}: {problem}")]
    Syntax {
        /// Which.
        path: PathBuf,
        /// Where.
        line: usize,
        /// What the reader said.
        problem: String,
    },
    /// A key that is no setting.
    #[error("{path} line {line}: there is no setting {key:?}{}", hint(.nearest))]
    UnknownKey {
        /// Which.
        path: PathBuf,
        /// Where.
        line: usize,
        /// What stands there.
        key: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// A value of a kind that no setting has.
    #[error(
        "{path} line {line}: {key} cannot be {kind}: expected text, a number, true, false, or a list of texts"
    )]
    Kind {
        /// Which.
        path: PathBuf,
        /// Where.
        line: usize,
        /// The setting.
        key: String,
        /// What stands there.
        kind: &'static str,
    },
    /// A value that the flag would refuse too.
    #[error("{path} line {line}: {problem}")]
    Value {
        /// Which.
        path: PathBuf,
        /// Where.
        line: usize,
        /// In the flag's words.
        problem: String,
    },
}

fn hint(nearest: &Option<String>) -> String {
    match nearest {
        Some(key) => format!("; did you mean {key}?"),
        None => String::new(),
    }
}

/// A command with its values.
#[derive(Debug)]
pub struct Parsed {
    /// The command; the demo if none was named.
    pub command: Command,
    /// The settings behind it, in the order of the help text.
    pub settings: Vec<Setting>,
}

/// One setting as it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The flag's name without the dashes.
    pub key: String,
    /// As it would be typed; `None` if it is not set and has no default.
    pub value: Option<String>,
    /// Where the value comes from.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line.
    Flag,
    /// The environment variable of this name.
    Environment(String),
    /// This line of a file.
    File(PathBuf, usize),
    /// Nobody set it.
    Default,
}

/// What stands in a file for one setting.
#[derive(Debug)]
struct Entry {
    line: usize,
    value: String,
}

/// What can go wrong before there is a command.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// What was typed; `clap` has the words and the exit code, help and version among them.
    #[error(transparent)]
    Typed(#[from] clap::Error),
    /// What stands in the file.
    #[error(transparent)]
    File(#[from] Error),
}

/// Reads `arguments`, the program's name first.
///
/// # Errors
///
/// What was typed or stands in the file cannot be used.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, Refused> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut root = Cli::command();
    let file = match named_file(&arguments) {
        Some(path) => read(&path)?,
        None => Contents::default(),
    };
    for command in WITH_FILE {
        let known: Vec<_> = file
            .entries
            .iter()
            .filter(|(key, _)| flag(&root, command, key).is_some())
            .map(|(key, entry)| (key.clone(), entry.value.clone()))
            .collect();
        root = root.mut_subcommand(command, |mut command| {
            for (key, value) in known {
                command = command.mut_arg(id(&key), |flag| flag.default_value(value));
            }
            command
        });
    }
    let matches = root.try_get_matches_from(arguments)?;
    let settings = match matches.subcommand() {
        Some((name, matches)) => settings(name, matches, &file),
        None => Vec::new(),
    };
    let cli = Cli::from_arg_matches(&matches)?;
    Ok(Parsed {
        command: cli.command.unwrap_or_else(Command::demo),
        settings,
    })
}

/// A file's path and what it sets.
#[derive(Debug, Default)]
struct Contents {
    path: PathBuf,
    entries: BTreeMap<String, Entry>,
}

/// The file that is to be read, found before anything else is parsed.
fn named_file(arguments: &[OsString]) -> Option<PathBuf> {
    let mut rest = arguments.iter().skip(1);
    let command = rest.next()?.to_str()?;
    if !WITH_FILE.contains(&command) {
        return None;
    }
    while let Some(argument) = rest.next() {
        if argument == "--" {
            break;
        }
        if argument == "--config" {
            return rest.next().map(PathBuf::from);
        }
        if let Some(path) = argument
            .to_str()
            .and_then(|text| text.strip_prefix("--config="))
        {
            return Some(path.into());
        }
    }
    std::env::var_os("LIGHTSHIP_CONFIG")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// The names that a file may use.
pub fn keys() -> Vec<String> {
    flags(&Cli::command(), "serve")
        .into_iter()
        .map(|flag| key(&flag))
        .collect()
}

/// The flags of `command` that are settings.
pub fn flags(root: &clap::Command, command: &str) -> Vec<Arg> {
    root.find_subcommand(command)
        .into_iter()
        .flat_map(clap::Command::get_arguments)
        .filter(|flag| !matches!(flag.get_id().as_str(), "config" | "help" | "version"))
        .cloned()
        .collect()
}

fn flag(root: &clap::Command, command: &str, wanted: &str) -> Option<Arg> {
    flags(root, command)
        .into_iter()
        .find(|flag| key(flag) == wanted)
}

fn key(flag: &Arg) -> String {
    flag.get_long().unwrap_or_default().to_owned()
}

/// As the derive names the field behind a key.
fn id(key: &str) -> String {
    key.replace('-', "_")
}

fn read(path: &Path) -> Result<Contents, Error> {
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let read = File::open(path)
        .map_err(failed)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if read as u64 > MAX_FILE_BYTES {
        return Err(Error::TooLong {
            path: path.to_owned(),
        });
    }
    let line = |at: usize| {
        text.as_bytes()
            .iter()
            .take(at)
            .filter(|byte| **byte == b'\n')
            .count()
            + 1
    };
    let table = DeTable::parse(&text).map_err(|error| Error::Syntax {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| line(span.start)),
        problem: error.message().to_owned(),
    })?;
    let root = Cli::command();
    let mut entries = BTreeMap::new();
    // In the file's order, so that its first fault is the one that is told.
    let mut pairs: Vec<_> = table.get_ref().iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in pairs {
        let (name, line) = (key.get_ref().to_string(), line(key.span().start));
        let Some(flag) = flag(&root, "serve", &name) else {
            return Err(Error::UnknownKey {
                path: path.to_owned(),
                line,
                nearest: nearest(&name),
                key: name,
            });
        };
        let value = text_of(value.get_ref()).map_err(|kind| Error::Kind {
            path: path.to_owned(),
            line,
            key: name.clone(),
            kind,
        })?;
        try_out(flag, &value).map_err(|problem| Error::Value {
            path: path.to_owned(),
            line,
            problem,
        })?;
        entries.insert(name, Entry { line, value });
    }
    Ok(Contents {
        path: path.to_owned(),
        entries,
    })
}

/// A value as the flag's would be typed.
fn text_of(value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().replace('_', "")),
        DeValue::Boolean(value) => Ok(value.to_string()),
        DeValue::Array(list) if list.is_empty() => Err("an empty list"),
        DeValue::Array(list) => list
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                _ => Err("a list of anything but texts"),
            })
            .collect::<Result<Vec<_>, _>>()
            .map(|list| list.join(",")),
        DeValue::Table(_) => Err("a table"),
        DeValue::Float(_) => Err("a fraction"),
        DeValue::Datetime(_) => Err("a date"),
        DeValue::Integer(_) => Err("a number that is not decimal"),
    }
}

/// What the flag would say to `value`.
fn try_out(flag: Arg, value: &str) -> Result<(), String> {
    let name = key(&flag);
    // Without its variable: what that holds is not the file's fault.
    let flag = flag.required(false).env(None::<&str>);
    clap::Command::new("settings")
        .no_binary_name(true)
        .arg(flag)
        .try_get_matches_from([format!("--{name}={value}")])
        .map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        })?;
    Ok(())
}

fn nearest(wrong: &str) -> Option<String> {
    // An underscore is the most likely slip of all.
    let wrong = wrong.replace('_', "-").to_lowercase();
    keys()
        .into_iter()
        .map(|key| (strsim::jaro_winkler(&key, &wrong), key))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, key)| key)
}

fn settings(name: &str, matches: &ArgMatches, file: &Contents) -> Vec<Setting> {
    // Of the command as it was made: a flag that the file gives a default moves to the end of the other.
    flags(&Cli::command(), name)
        .into_iter()
        .map(|flag| {
            let key = key(&flag);
            let id = flag.get_id().as_str();
            let value = matches.get_raw(id).map(|values| {
                let values: Vec<_> = values.map(OsStr::to_string_lossy).collect();
                values.join(",")
            });
            let origin = match (matches.value_source(id), file.entries.get(&key)) {
                (Some(ValueSource::CommandLine), _) => Origin::Flag,
                (Some(ValueSource::EnvVariable), _) => Origin::Environment(
                    flag.get_env()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned(),
                ),
                (Some(_), Some(entry)) => Origin::File(file.path.clone(), entry.line),
                _ => Origin::Default,
            };
            Setting { key, value, origin }
        })
        .collect()
}

/// The settings as a file that would make them so, with where each comes from. Holds no secret: passwords are never settings, only
/// the names of their files are.
pub fn show(settings: &[Setting]) -> String {
    let mut text = String::new();
    for Setting { key, value, origin } in settings {
        let line = match value {
            Some(value) if is_bare(value) => format!("{key} = {value}"),
            Some(value) => format!("{key} = {}", quoted(&without_password(key, value))),
            None => format!("# {key} is not set"),
        };
        let origin = match origin {
            _ if value.is_none() => String::new(),
            Origin::Flag => format!("# --{key}"),
            Origin::Environment(name) => format!("# {name}"),
            Origin::File(path, line) => format!("# {} line {line}", path.display()),
            Origin::Default => "# default".into(),
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{}", format!("{line:<48} {origin}").trim_end());
    }
    text
}

fn is_bare(value: &str) -> bool {
    value == "true" || value == "false" || value.parse::<u64>().is_ok()
}

/// An address with a password in it is refused everywhere else, and is not repeated here.
fn without_password(key: &str, value: &str) -> String {
    match value.rsplit_once('@') {
        Some((before, host)) if key == "node" => match before.split_once("://") {
            Some((scheme, _)) => format!("{scheme}://***@{host}"),
            None => format!("***@{host}"),
        },
        _ => value.to_owned(),
    }
}

fn quoted(value: &str) -> String {
    let mut text = String::from('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(text, "\\u{:04X}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests;
