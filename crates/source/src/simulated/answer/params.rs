//! The parameters of a call, by position or by name.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::RpcError;

/// Zebra accepts an array, an object with the method's own names, `null` or nothing.
pub(super) struct Params<'a>(&'a Value);

impl<'a> Params<'a> {
    pub(super) fn new(params: &'a Value) -> Result<Params<'a>, RpcError> {
        match params {
            Value::Null | Value::Array(_) | Value::Object(_) => Ok(Params(params)),
            _ => Err(invalid()),
        }
    }

    fn get(&self, position: usize, name: &str) -> &'a Value {
        const NULL: &Value = &Value::Null;
        match self.0 {
            Value::Array(items) => items.get(position).unwrap_or(NULL),
            Value::Object(fields) => fields.get(name).unwrap_or(NULL),
            _ => NULL,
        }
    }

    /// A parameter that must be there.
    pub(super) fn required<T: DeserializeOwned>(
        &self,
        position: usize,
        name: &str,
    ) -> Result<T, RpcError> {
        self.optional(position, name)?.ok_or_else(invalid)
    }

    /// A parameter that may be left out or `null`.
    pub(super) fn optional<T: DeserializeOwned>(
        &self,
        position: usize,
        name: &str,
    ) -> Result<Option<T>, RpcError> {
        match self.get(position, name) {
            Value::Null => Ok(None),
            value => T::deserialize(value).map(Some).map_err(|_| invalid()),
        }
    }
}

/// Missing, or of another type: Zebra's front rewrites -32602 to -1.
pub(super) fn invalid() -> RpcError {
    RpcError::new(-1, "Invalid params")
}
