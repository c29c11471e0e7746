//! Questions to the source from a thread that must stay free to stop.
//!
//! In: closures over the [`BlockSource`]. Out: their answers, or word that the run was stopped or that the source panicked.
//! A source call blocks up to the source's own timeout, so it is made on a thread of its own: when the run stops, that
//! thread is left behind to finish its one call, touches nothing but the source, and ends.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

use lightship_source::{BlockSource, Error as SourceError};

use crate::Stop;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The run was stopped while waiting.
    Stopped,
    /// The source answered with an error.
    Source(SourceError),
    /// The source panicked, or its thread could not be started.
    Panicked(String),
}

type Job = Box<dyn FnOnce(&dyn BlockSource) + Send>;
type Answered<T> = Result<T, NoAnswer>;

/// One thread that asks, one question after the other.
pub(crate) struct Asker {
    source: Arc<dyn BlockSource>,
    stop: Stop,
    jobs: Option<mpsc::Sender<Job>>,
}

/// An answer that may not be there yet.
pub(crate) struct Pending<T> {
    slot: Arc<Mutex<Option<Answered<T>>>>,
}

impl<T> Pending<T> {
    /// Whether there is something to take.
    pub(crate) fn is_ready(&self) -> bool {
        self.slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// The answer, once.
    pub(crate) fn try_take(&self) -> Option<Answered<T>> {
        self.slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Asker {
    /// The thread starts with the first question.
    pub(crate) fn new(source: Arc<dyn BlockSource>, stop: Stop) -> Asker {
        Asker {
            source,
            stop,
            jobs: None,
        }
    }

    /// Asks, and waits for the answer or the stop.
    pub(crate) fn ask<T, F>(&mut self, question: F) -> Answered<T>
    where
        T: Send + 'static,
        F: FnOnce(&dyn BlockSource) -> Result<T, SourceError> + Send + 'static,
    {
        let pending = self.start(question);
        self.stop.wait_until(None, || pending.is_ready());
        pending.try_take().unwrap_or(Err(NoAnswer::Stopped))
    }

    /// Asks, and returns at once.
    pub(crate) fn start<T, F>(&mut self, question: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&dyn BlockSource) -> Result<T, SourceError> + Send + 'static,
    {
        let slot = Arc::new(Mutex::new(None));
        let job: Job = {
            let slot = Arc::clone(&slot);
            let stop = self.stop.clone();
            Box::new(move |source| {
                let answer = match catch_unwind(AssertUnwindSafe(|| question(source))) {
                    Ok(answer) => answer.map_err(NoAnswer::Source),
                    Err(panic) => Err(NoAnswer::Panicked(panic_message(&*panic))),
                };
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
                stop.ring();
            })
        };
        if let Err(reason) = self.hand_over(job) {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Err(NoAnswer::Panicked(reason)));
        }
        Pending { slot }
    }

    fn hand_over(&mut self, job: Job) -> Result<(), String> {
        let jobs = match &self.jobs {
            Some(jobs) => jobs,
            None => {
                let (sender, receiver) = mpsc::channel::<Job>();
                let source = Arc::clone(&self.source);
                thread::Builder::new()
                    .name("ingest-ask".into())
                    .spawn(move || {
                        while let Ok(job) = receiver.recv() {
                            job(&*source);
                        }
                    })
                    .map_err(|error| format!("cannot start a thread: {error}"))?;
                self.jobs.insert(sender)
            }
        };
        jobs.send(job)
            .map_err(|_| String::from("the asking thread has ended"))
    }
}

/// What a panic said, if it said it in words.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| String::from("a panic without words"))
}
