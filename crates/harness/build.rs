//! Generates the lightwallet client from the published protocol, without `protoc`.

use std::path::Path;

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Asked for when it runs: a build folder may outlive the checkout this script was compiled in.
    let proto = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let walletrpc = proto.join("walletrpc");
    println!("cargo:rerun-if-changed={}", proto.display());
    // The files import one another by bare name, so their own folder is the root.
    let descriptors = protox::compile(["service.proto"], [walletrpc])?;
    // Field names, for those who compare messages of any kind.
    let described = Path::new(&std::env::var("OUT_DIR")?).join("descriptors.bin");
    std::fs::write(described, descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_server(false)
        .compile_fds(descriptors)?;
    Ok(())
}
