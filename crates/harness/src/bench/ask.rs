//! Load of single calls: every answer is held against the right one.
//!
//! In: a method's questions and a server. Out: times or rates. A method is asked all of its questions once before the clock starts and the answers are
//! brought to plain form; a timed answer must have the bytes of the one before, or else the same plain form.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use tokio_rustls::rustls::ClientConfig;

use super::{
    figures::{Figure, Proof, latencies},
    ghz::{Ghz, Opinion},
    plan::GhzPlan,
    questions::{Method, Question, plain},
    server::Server,
    wire::{Refused, Wire},
};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers that were found right, as they came.
type Known = HashMap<usize, Vec<Vec<u8>>>;

/// A server whose answers to a method's questions were found right.
pub struct Asked<'a> {
    server: &'a Server,
    tls: Option<&'a Arc<ClientConfig>>,
    method: &'a Method,
    known: Known,
}

impl<'a> Asked<'a> {
    /// Asks all questions once and looks into the answers.
    ///
    /// # Errors
    ///
    /// When one is refused or wrong.
    pub fn prove(
        server: &'a Server,
        tls: Option<&'a Arc<ClientConfig>>,
        method: &'a Method,
    ) -> Result<Asked<'a>> {
        let mut wire = Wire::connect(server.address, tls)?;
        let mut known = Known::new();
        for (nth, question) in method.questions.iter().enumerate() {
            let answer = ask(&mut wire, method, question)?;
            right(method, question, &answer)?;
            known.insert(nth, answer);
        }
        Ok(Asked {
            server,
            tls,
            method,
            known,
        })
    }

    fn one(&self, wire: &mut Wire, nth: usize) -> Result<()> {
        let nth = nth % self.method.questions.len();
        let question = &self.method.questions[nth];
        let answer = ask(wire, self.method, question)?;
        if self.known.get(&nth) != Some(&answer) {
            right(self.method, question, &answer)?;
        }
        Ok(())
    }

    fn proof(&self, count: u64) -> Proof {
        Proof {
            count,
            digest: Some(self.method.digest()),
        }
    }

    /// One call after the other, `requests` of them, or fewer if `time` ends.
    ///
    /// # Errors
    ///
    /// When an answer is refused, late or wrong: no figures then.
    pub fn latency(&self, requests: u32, time: Duration) -> Result<(Proof, Vec<Figure>)> {
        let mut wire = Wire::connect(self.server.address, self.tls)?;
        for nth in 0..10 {
            self.one(&mut wire, nth)?;
        }
        let mut times = Vec::new();
        let began = Instant::now();
        for nth in 0..requests as usize {
            let asked = Instant::now();
            self.one(&mut wire, nth)?;
            times.push(asked.elapsed().as_secs_f64() * 1e3);
            if began.elapsed() >= time {
                break;
            }
        }
        let proof = self.proof(times.len() as u64);
        Ok((proof, latencies(&mut times).into()))
    }

    /// The same questions by ghz, which does not look at the answers.
    ///
    /// # Errors
    ///
    /// When it fails, or a call of it.
    pub fn by_ghz(&self, ghz: &Ghz, plan: &GhzPlan, workers: u32) -> Result<Opinion> {
        ghz.ask(plan, self.server.address, self.method, workers)
    }

    /// Many workers at a time, each on a connection of its own, for `time`.
    ///
    /// # Errors
    ///
    /// As [`Asked::latency`].
    pub fn throughput(&self, workers: u32, time: Duration) -> Result<(Proof, Vec<Figure>)> {
        let mut wires = Vec::new();
        for number in 0..workers {
            let wire = Wire::connect(self.server.address, self.tls);
            wires.push(wire.with_context(|| format!("worker {number}"))?);
        }
        for (number, wire) in wires.iter_mut().enumerate() {
            self.one(wire, number)
                .with_context(|| format!("worker {number}"))?;
        }
        let before = self.server.usage()?;
        let began = Instant::now();
        let times = std::thread::scope(|scope| {
            let threads: Vec<_> = wires
                .iter_mut()
                .enumerate()
                .map(|(number, wire)| {
                    scope.spawn(move || -> Result<Vec<f64>> {
                        let mut times = Vec::new();
                        // Workers begin at different questions.
                        for nth in number.. {
                            let asked = Instant::now();
                            self.one(wire, nth)?;
                            times.push(asked.elapsed().as_secs_f64() * 1e3);
                            if began.elapsed() >= time {
                                break;
                            }
                        }
                        Ok(times)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a worker panicked"))?)
                .collect::<Result<Vec<_>>>()
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let cpu = self.server.usage()?.cpu() - before.cpu();
        let mut times: Vec<f64> = times.into_iter().flatten().collect();
        let count = times.len() as f64;
        let mut figures = vec![
            Figure::higher("throughput", "answers/s", count / seconds),
            Figure::lower("server cpu", "CPU s", cpu),
        ];
        if cpu >= 0.1 {
            figures.push(Figure::higher(
                "answers a server CPU second",
                "answers/CPU s",
                count / cpu,
            ));
        }
        figures.extend(latencies(&mut times));
        Ok((self.proof(times.len() as u64), figures))
    }
}

fn ask(wire: &mut Wire, method: &Method, question: &Question) -> Result<Vec<Vec<u8>>> {
    wire.ask(method.name, &question.request, PATIENCE)
        .map_err(|error| match error.downcast_ref::<Refused>() {
            Some(refused) => anyhow!("{} was refused: {:?}", method.name, refused.code),
            None => error.context(method.name),
        })
}

fn right(method: &Method, question: &Question, answer: &[Vec<u8>]) -> Result<()> {
    let found = plain(method.name, answer)
        .with_context(|| format!("{}: an answer of another shape", method.name))?;
    ensure!(
        found == question.answer,
        "{}: a wrong answer to {}: {}",
        method.name,
        const_hex::encode(&question.request),
        difference(&found, &question.answer)
    );
    Ok(())
}

/// Where two plain forms part, with some bytes around.
fn difference(found: &[u8], right: &[u8]) -> String {
    let at = found
        .iter()
        .zip(right)
        .position(|(left, right)| left != right)
        .unwrap_or(found.len().min(right.len()));
    let around = |bytes: &[u8]| {
        let from = at.saturating_sub(8).min(bytes.len());
        const_hex::encode(&bytes[from..bytes.len().min(at + 24)])
    };
    format!(
        "{} bytes instead of {}, different from byte {at} on: ..{}.. instead of ..{}..",
        found.len(),
        right.len(),
        around(found),
        around(right)
    )
}
