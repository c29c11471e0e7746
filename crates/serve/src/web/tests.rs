use super::*;

fn kind(method: &str, version: Version, headers: &[(&str, &str)]) -> Kind {
    let mut request = Request::builder().method(method).version(version).uri("/");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Kind::of(&request.body(()).unwrap())
}

fn status(kind: Kind) -> u16 {
    match kind {
        Kind::Stray(status, _) => status.as_u16(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_http_2_carries_native_calls() {
    for kinds in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc;x=y",
    ] {
        let headers = [("content-type", kinds)];
        assert_eq!(kind("POST", Version::HTTP_2, &headers), Kind::Native);
        assert_eq!(status(kind("POST", Version::HTTP_11, &headers)), 426);
    }
    assert_eq!(kind("POST", Version::HTTP_2, &[]), Kind::Native);
    assert_eq!(status(kind("POST", Version::HTTP_11, &[])), 415);
}

#[test]
fn browsers_calls_are_told_by_their_content_type() {
    use Encoding::{Binary, Text};
    for (sent, accept, expected) in [
        ("application/grpc-web", "*/*", (Binary, Binary)),
        ("application/grpc-web+proto", "", (Binary, Binary)),
        ("Application/gRPC-Web; charset=utf-8", "", (Binary, Binary)),
        ("application/grpc-web-text", "*/*", (Text, Text)),
        (
            "application/grpc-web-text+proto",
            "application/grpc-web+proto",
            (Text, Binary),
        ),
        (
            "application/grpc-web",
            "application/grpc-web-text",
            (Binary, Text),
        ),
    ] {
        let headers = [("content-type", sent), ("accept", accept)];
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let (sent, wanted) = expected;
            assert_eq!(kind("POST", version, &headers), Kind::Web { sent, wanted });
        }
    }
}

#[test]
fn what_is_no_call_is_told_so() {
    let json = [("content-type", "application/json")];
    let browser = [("origin", "https://a")];
    let asks = [
        ("origin", "https://a"),
        ("access-control-request-method", "POST"),
    ];
    for version in [Version::HTTP_11, Version::HTTP_2] {
        assert_eq!(status(kind("GET", version, &[])), 405);
        assert_eq!(status(kind("OPTIONS", version, &browser)), 405);
        assert_eq!(status(kind("POST", version, &json)), 415);
        let looks_like = [("content-type", "application/grpc-webby")];
        assert_eq!(status(kind("POST", version, &looks_like)), 415);
        assert_eq!(kind("OPTIONS", version, &asks), Kind::Preflight);
    }
}
