//! Generates the protocol's messages, the server's trait and the client from the published `.proto` files, without `protoc`.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const PACKAGE: &str = ".cash.z.wallet.sdk.rpc";

/// What is routed to the bodies of `range/`, past the generated service: its answers are stored already encoded.
const ROUTED_BY_HAND: [&str; 4] = [
    "GetBlock",
    "GetBlockNullifiers",
    "GetBlockRange",
    "GetBlockRangeNullifiers",
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from("../../proto/walletrpc");
    println!("cargo:rerun-if-changed={}", folder.display());
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let files = protox::compile([folder.join("service.proto")], [&folder])?;
    fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;

    let mut served = files.clone();
    for service in served.file.iter_mut().flat_map(|file| &mut file.service) {
        service
            .method
            .retain(|method| !ROUTED_BY_HAND.contains(&method.name()));
    }
    let server = out.join("server");
    fs::create_dir_all(&server)?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        .out_dir(server)
        .compile_fds(served)?;

    let client = out.join("client");
    fs::create_dir_all(&client)?;
    tonic_prost_build::configure()
        .build_server(false)
        .extern_path(PACKAGE, "crate::proto")
        .out_dir(client)
        .compile_fds(files)?;
    Ok(())
}
