//! The methods, by the path a call names.

use crate::proto::SERVICE;

macro_rules! methods {
    ($($name:ident $long:literal),* $(,)?) => {
        /// A method of the service, or one of the services beside it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Method {
            $($name,)*
            /// gRPC health checks.
            Health,
            /// gRPC reflection.
            Reflection,
            /// Anything else.
            Unknown,
        }

        impl Method {
            /// Those of the service, in the order of the `.proto` file, then the others.
            pub(crate) const ALL: &[Method] =
                &[$(Method::$name,)* Method::Health, Method::Reflection, Method::Unknown];

            /// As metrics call it: a fixed set, whatever clients send.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Method::$name => stringify!($name),)*
                    Method::Health => "Health",
                    Method::Reflection => "Reflection",
                    Method::Unknown => "unknown",
                }
            }

            /// Whether its answer may be long, and so needs a place.
            pub(crate) const fn is_long(self) -> bool {
                match self {
                    $(Method::$name => $long,)*
                    Method::Health | Method::Reflection => true,
                    Method::Unknown => false,
                }
            }

            fn of_service(name: &str) -> Method {
                match name {
                    $(stringify!($name) => Method::$name,)*
                    _ => Method::Unknown,
                }
            }
        }
    };
}

methods! {
    GetLatestBlock false,
    GetBlock false,
    GetBlockNullifiers false,
    GetBlockRange true,
    GetBlockRangeNullifiers true,
    GetTransaction false,
    SendTransaction false,
    GetTaddressTxids true,
    GetTaddressTransactions true,
    GetTaddressBalance false,
    GetTaddressBalanceStream true,
    GetMempoolTx true,
    GetMempoolStream true,
    GetTreeState false,
    GetLatestTreeState false,
    GetSubtreeRoots true,
    GetAddressUtxos false,
    GetAddressUtxosStream true,
    GetLightdInfo false,
    Ping false,
}

impl Method {
    /// The method a request's path names.
    pub(crate) fn of(path: &str) -> Method {
        let Some((service, name)) = path.strip_prefix('/').and_then(|path| path.split_once('/'))
        else {
            return Method::Unknown;
        };
        match service {
            SERVICE => Method::of_service(name),
            "grpc.health.v1.Health" => Method::Health,
            "grpc.reflection.v1.ServerReflection" | "grpc.reflection.v1alpha.ServerReflection" => {
                Method::Reflection
            }
            _ => Method::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;

    #[test]
    fn every_published_method_is_known() {
        let files = prost_types::FileDescriptorSet::decode(crate::proto::DESCRIPTORS).unwrap();
        let published: Vec<String> = files
            .file
            .iter()
            .flat_map(|file| &file.service)
            .flat_map(|service| &service.method)
            .map(|method| method.name().to_owned())
            .collect();
        assert_eq!(published.len(), 20);
        for name in &published {
            let method = Method::of(&format!("/{SERVICE}/{name}"));
            assert_eq!(method.name(), name);
        }
        assert_eq!(Method::ALL.len(), 20 + 3);
    }

    #[test]
    fn any_other_path_is_unknown() {
        for path in [
            "",
            "/",
            "/x",
            "/x/y",
            "/cash.z.wallet.sdk.rpc.CompactTxStreamer/GetZECPrice",
        ] {
            assert_eq!(Method::of(path), Method::Unknown);
        }
    }
}
