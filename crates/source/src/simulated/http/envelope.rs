//! JSON-RPC envelopes: which requests are taken, and what replies look like around their results.
//!
//! Follows zebrad 7.0 (jsonrpsee behind a layer that also takes the old forms): 2.0 alone and in batches; 1.0 and no version only alone, only
//! with parameters, answered in the old form.

use serde_json::{Map, Value, json};

use crate::simulated::RpcError;

/// How the caller writes JSON-RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    V2,
    V1,
    Unversioned,
}

/// One request.
#[derive(Debug)]
pub(super) struct Call {
    form: Form,
    /// `None`: a notification, which is carried out and not answered.
    id: Option<Value>,
    pub(super) method: String,
    pub(super) params: Value,
}

impl Call {
    /// Reads a request; `alone` if it is not part of a batch. `None` if it is not one: -32600.
    pub(super) fn read(value: Value, alone: bool) -> Option<Call> {
        let Value::Object(mut fields) = value else {
            return None;
        };
        let form = match fields.get("jsonrpc") {
            Some(Value::String(version)) if version == "2.0" => Form::V2,
            Some(Value::String(version)) if version == "1.0" && alone => Form::V1,
            None if alone => Form::Unversioned,
            _ => return None,
        };
        let Some(Value::String(method)) = fields.remove("method") else {
            return None;
        };
        let params = fields.remove("params");
        if form != Form::V2 && (params.is_none() || !fields.contains_key("id")) {
            return None;
        }
        // An id of another type makes the call a notification.
        let id = fields.remove("id").filter(|id| match id {
            Value::String(_) | Value::Null => true,
            Value::Number(number) => number.is_u64(),
            _ => false,
        });
        Some(Call {
            form,
            id,
            method,
            params: params.unwrap_or(Value::Null),
        })
    }

    /// The reply, or `None` to a notification.
    pub(super) fn reply(self, answer: Result<Value, RpcError>) -> Option<Value> {
        let id = self.id?;
        let mut reply = Map::new();
        if self.form != Form::Unversioned {
            let version = if self.form == Form::V2 { "2.0" } else { "1.0" };
            reply.insert("jsonrpc".to_owned(), version.into());
        }
        reply.insert("id".to_owned(), id);
        let old = self.form != Form::V2;
        let (result, error) = match answer {
            Ok(result) => (Some(result), old.then_some(Value::Null)),
            Err(error) => (old.then_some(Value::Null), Some(error_object(&error))),
        };
        if let Some(result) = result {
            reply.insert("result".to_owned(), result);
        }
        if let Some(error) = error {
            reply.insert("error".to_owned(), error);
        }
        Some(reply.into())
    }
}

fn error_object(error: &RpcError) -> Value {
    json!({"code": error.code, "message": error.message})
}

/// The reply to something that is no request.
pub(super) fn refusal(code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}})
}
