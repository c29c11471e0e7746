//! What the simulated node answers over JSON-RPC.

/// An error as JSON-RPC carries it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// The error's number.
    pub code: i32,
    /// The error's words.
    pub message: String,
}

impl RpcError {
    pub(super) fn new(code: i32, message: impl Into<String>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
        }
    }
}
