//! Verdicts on answers: what `conform --report` and `compare --report` wrote into a run's folder `compat/`.
//!
//! The file's name without `.json` is the server's name. A file that is neither is named in the notes.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

/// All verdicts of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Compatibility {
    /// Of one server each, by the model.
    pub conform: Vec<Verdicts>,
    /// Of two servers each.
    pub compare: Vec<Pair>,
    /// The methods that any of [`Compatibility::conform`] judged.
    pub methods: Vec<String>,
}

/// Cases of one server.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdicts {
    /// The server's name.
    pub name: String,
    /// What the node calls its chain.
    pub chain: String,
    /// Cases that passed.
    pub passed: u64,
    /// Cases that failed.
    pub failed: u64,
    /// Passed and failed, for each of [`Compatibility::methods`].
    pub methods: Vec<[u64; 2]>,
}

/// What two servers said to the same questions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pair {
    /// The file's name.
    #[serde(skip_deserializing)]
    pub name: String,
    /// Addresses.
    pub a: String,
    /// Addresses.
    pub b: String,
    /// Questions.
    pub asked: u64,
    /// Equal answers.
    pub equal: u64,
    /// Other answers.
    pub different: u64,
    /// Fields that differ.
    pub fields: Vec<Field>,
}

/// A field that differs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Field {
    /// Of which method.
    pub method: String,
    /// Its path.
    pub field: String,
    /// How often.
    pub places: u64,
    /// In how many answers.
    pub answers: u64,
}

#[derive(Deserialize)]
struct Conform {
    chain: String,
    passed: u64,
    failed: u64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    method: String,
    verdict: String,
}

/// Reads the folder; nothing if there is none.
pub(super) fn read(run: &Path, notes: &mut Vec<String>) -> Compatibility {
    let mut found = Compatibility::default();
    let mut judged = Vec::new();
    let Ok(entries) = fs::read_dir(run.join("compat")) else {
        return found;
    };
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    paths.sort();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = name.into_owned();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) => {
                notes.push(format!("{}: {error}", path.display()));
                continue;
            }
        };
        if let Ok(pair) = serde_json::from_slice::<Pair>(&text) {
            found.compare.push(Pair { name, ..pair });
        } else {
            match serde_json::from_slice::<Conform>(&text) {
                Ok(conform) => judged.push((name, conform)),
                Err(error) => notes.push(format!(
                    "{}: neither of conform nor of compare: {error}",
                    path.display()
                )),
            }
        }
    }
    for (_, conform) in &judged {
        for case in &conform.cases {
            if !found.methods.contains(&case.method) {
                found.methods.push(case.method.clone());
            }
        }
    }
    found.conform = judged
        .into_iter()
        .map(|(name, conform)| {
            let methods = found.methods.iter().map(|method| {
                let of = conform.cases.iter().filter(|case| case.method == *method);
                let passed = of.clone().filter(|case| case.verdict == "passed").count() as u64;
                [passed, of.count() as u64 - passed]
            });
            Verdicts {
                name,
                methods: methods.collect(),
                chain: conform.chain,
                passed: conform.passed,
                failed: conform.failed,
            }
        })
        .collect();
    found
}
