//! Messages as clients send them, well-formed and not, and the replies they get.

use quarry_bson::{Document, DocumentBuilder, RawDocument, doc};
use quarry_wire::{
    Compressor, Error, HEADER_BYTES, Header, MESSAGE_BYTES_MAX, OpMsg, ReplyBuilder, Request,
    compress, parse,
};

const MSG: i32 = 2013;
const QUERY: i32 = 2004;
const COMPRESSED: i32 = 2012;

fn message(op_code: i32, body: &[u8]) -> Vec<u8> {
    let header = Header {
        message_bytes: HEADER_BYTES + body.len(),
        request_id: 7,
        response_to: 0,
        op_code,
    };
    [&header.to_bytes()[..], body].concat()
}

fn body_section(document: &Document) -> Vec<u8> {
    [&[0], document.as_bytes()].concat()
}

fn sequence_section(identifier: &str, documents: &[&Document]) -> Vec<u8> {
    let documents: Vec<u8> = documents
        .iter()
        .flat_map(|d| d.as_bytes().to_vec())
        .collect();
    let length = (4 + identifier.len() + 1 + documents.len()) as u32;
    [
        &[1][..],
        &length.to_le_bytes(),
        identifier.as_bytes(),
        &[0],
        &documents,
    ]
    .concat()
}

fn op_msg(flags: u32, sections: &[Vec<u8>]) -> Vec<u8> {
    message(
        MSG,
        &[&flags.to_le_bytes()[..], &sections.concat()].concat(),
    )
}

fn with_checksum(mut message: Vec<u8>) -> Vec<u8> {
    let bytes = (message.len() + 4) as u32;
    message[..4].copy_from_slice(&bytes.to_le_bytes());
    message[16] |= 1;
    let checksum = crc32c::crc32c(&message);
    message.extend_from_slice(&checksum.to_le_bytes());
    message
}

fn op_query(namespace: &[u8], documents: &[&Document]) -> Vec<u8> {
    let documents: Vec<u8> = documents
        .iter()
        .flat_map(|d| d.as_bytes().to_vec())
        .collect();
    let numbers = [0i32.to_le_bytes(), (-1i32).to_le_bytes()].concat();
    message(
        QUERY,
        &[&[0; 4][..], namespace, &[0], &numbers, &documents].concat(),
    )
}

fn packed(op_code: i32, size: i32, id: u8, bytes: &[u8]) -> Vec<u8> {
    let prelude = [&op_code.to_le_bytes()[..], &size.to_le_bytes(), &[id]].concat();
    message(COMPRESSED, &[&prelude, bytes].concat())
}

/// Why the message is not taken, whether or not its sender is told.
fn refusal(message: &[u8], scratch: &mut Vec<u8>) -> Error {
    match parse(message, scratch) {
        Ok((_, Request::Refused(refused))) => {
            assert!(refused.error.is_answerable());
            refused.error
        }
        Ok((header, _)) => panic!("{header:?} is taken"),
        Err(error) => error,
    }
}

fn parsed_msg<'a>(message: &'a [u8], scratch: &'a mut Vec<u8>) -> OpMsg<'a> {
    match parse(message, scratch) {
        Ok((header, Request::Msg(msg))) => {
            assert_eq!((header.request_id, header.op_code), (7, MSG));
            msg
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_with_a_document_sequence() {
    let (body, a, b) = (
        doc! { "insert": "c" },
        doc! { "_id": 1 },
        doc! { "_id": 2, "x": "y" },
    );
    for sections in [
        [
            body_section(&body),
            sequence_section("documents", &[&a, &b]),
        ],
        [
            sequence_section("documents", &[&a, &b]),
            body_section(&body),
        ],
    ] {
        let message = op_msg(0, &sections);
        let mut scratch = Vec::new();
        let msg = parsed_msg(&message, &mut scratch);
        assert_eq!(msg.body, body);
        assert!(!msg.is_more_to_come() && !msg.is_exhaust_allowed() && msg.compressor.is_none());
        let sequence = msg.sequence("documents").unwrap();
        assert_eq!(sequence.len(), 2);
        let documents: Vec<_> = sequence.documents().collect();
        assert_eq!((documents[0], documents[1]), (a.as_raw(), b.as_raw()));
        assert_eq!(documents.len(), 2);
        assert!(msg.sequence("other").is_none());
    }
}

#[test]
fn an_empty_sequence_is_a_sequence() {
    let message = op_msg(
        0,
        &[
            body_section(&doc! { "insert": "c" }),
            sequence_section("documents", &[]),
        ],
    );
    let mut scratch = Vec::new();
    assert!(
        parsed_msg(&message, &mut scratch)
            .sequence("documents")
            .unwrap()
            .is_empty()
    );
}

#[test]
fn documents_are_not_copied() {
    let message = op_msg(0, &[body_section(&doc! { "a": 1 })]);
    let mut scratch = Vec::new();
    let msg = parsed_msg(&message, &mut scratch);
    assert!(
        message
            .as_ptr_range()
            .contains(&msg.body.as_bytes().as_ptr())
    );
}

#[test]
fn flags_are_read_and_optional_unknown_ones_are_ignored() {
    let message = op_msg(
        1 << 1 | 1 << 16 | 1 << 20,
        &[body_section(&doc! { "a": 1 })],
    );
    let mut scratch = Vec::new();
    let msg = parsed_msg(&message, &mut scratch);
    assert!(msg.is_more_to_come() && msg.is_exhaust_allowed() && !msg.has_checksum());
}

#[test]
fn a_checksum_is_checked() {
    let good = with_checksum(op_msg(0, &[body_section(&doc! { "a": 1 })]));
    let mut scratch = Vec::new();
    assert!(parsed_msg(&good, &mut scratch).has_checksum());
    for at in [4, 20, 30, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        let error = refusal(&bad, &mut scratch);
        assert!(matches!(error, Error::Checksum { .. }), "{at}: {error}");
        assert_eq!(error.code(), 288);
    }
}

#[test]
fn a_legacy_query_is_parsed() {
    let (query, projection) = (doc! { "isMaster": 1 }, doc! { "x": 1 });
    let mut scratch = Vec::new();
    for (documents, expected) in [
        (vec![&query], None),
        (vec![&query, &projection], Some(projection.as_raw())),
    ] {
        let message = op_query(b"admin.$cmd", &documents);
        let (header, Request::Query(parsed)) = parse(&message, &mut scratch).unwrap() else {
            panic!("not a query");
        };
        assert_eq!(header.op_code, QUERY);
        assert_eq!(
            (parsed.namespace, parsed.number_to_return),
            ("admin.$cmd", -1)
        );
        assert_eq!(parsed.query, query);
        assert_eq!(parsed.projection, expected);
    }
}

#[test]
fn what_is_packed_unpacks_to_the_same_request() {
    let body = doc! { "insert": "c", "pad": ("ab".repeat(5000)) };
    let plain = op_msg(
        0,
        &[
            body_section(&body),
            sequence_section("documents", &[&doc! { "_id": 1 }]),
        ],
    );
    for compressor in Compressor::ALL {
        for plain in [plain.clone(), with_checksum(plain.clone())] {
            let mut bytes = b"before".to_vec();
            compress(&plain, compressor, &mut bytes).unwrap();
            let bytes = &bytes[6..];
            assert!(
                compressor == Compressor::Noop || bytes.len() < 1000,
                "{}",
                compressor.name()
            );
            let mut scratch = vec![1; 50_000];
            let msg = parsed_msg(bytes, &mut scratch);
            assert_eq!(msg.compressor, Some(compressor));
            assert_eq!(msg.body, body);
            assert_eq!(msg.sequences[0].len(), 1);
        }
    }
}

#[test]
fn bytes_that_do_not_pack_go_through_all_the_same() {
    let mut state = 1u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    })
    .take(1 << 20)
    .collect();
    let mut body = Vec::new();
    let mut builder = DocumentBuilder::new(&mut body);
    let noise = quarry_bson::Value::binary(0, &noise);
    builder.append("noise", &noise);
    builder.finish();
    let body = Document::from_bytes(body).unwrap();
    let plain = op_msg(0, &[body_section(&body)]);
    for compressor in Compressor::ALL {
        let (mut bytes, mut scratch) = (Vec::new(), Vec::new());
        compress(&plain, compressor, &mut bytes).unwrap();
        assert_eq!(parsed_msg(&bytes, &mut scratch).body, body);
    }
}

#[test]
fn names_and_numbers_of_compressors_agree_with_the_protocol() {
    for (id, name) in [(0, "noop"), (1, "snappy"), (2, "zlib"), (3, "zstd")] {
        let compressor = Compressor::from_id(id).unwrap();
        assert_eq!((compressor.id(), compressor.name()), (id, name));
        assert_eq!(Compressor::from_name(name), Some(compressor));
    }
    assert_eq!(Compressor::from_id(4), None);
    assert_eq!(Compressor::from_name("lz4"), None);
}

#[test]
fn a_packed_message_that_lies_about_its_size_is_refused() {
    let plain = op_msg(0, &[body_section(&doc! { "a": ("x".repeat(1000)) })]);
    let size = (plain.len() - HEADER_BYTES) as i32;
    let mut scratch = Vec::new();
    for compressor in Compressor::ALL {
        let mut good = Vec::new();
        compress(&plain, compressor, &mut good).unwrap();
        for lie in [
            0,
            1,
            size - 1,
            size + 1,
            size * 20,
            -1,
            i32::MIN,
            i32::MAX,
            48_000_000,
        ] {
            let mut bad = good.clone();
            bad[20..24].copy_from_slice(&lie.to_le_bytes());
            let error = refusal(&bad, &mut scratch);
            let refused = matches!(
                error,
                Error::Length { offset: 20, .. } | Error::Compression { .. }
            );
            assert!(refused, "{} {lie}: {error}", compressor.name());
            assert!(scratch.capacity() <= MESSAGE_BYTES_MAX + 1);
        }
        // Cut short, and with bytes behind the stream.
        let cut = message(COMPRESSED, &good[HEADER_BYTES..good.len() - 3]);
        assert!(parse(&cut, &mut scratch).is_err(), "{}", compressor.name());
        let longer = message(COMPRESSED, &[&good[HEADER_BYTES..], b"xyz"].concat());
        assert!(
            parse(&longer, &mut scratch).is_err(),
            "{}",
            compressor.name()
        );
    }
}

#[test]
fn malformed_messages_are_refused_with_place_and_reason() {
    let body = body_section(&doc! { "a": 1 });
    let documents = sequence_section("documents", &[&doc! { "_id": 1 }]);
    let mut invalid_body = body.clone();
    invalid_body[5] = 0x77;
    let mut invalid_document = documents.clone();
    let last = invalid_document.len() - 1;
    invalid_document[last] = 9;
    let mut long_section = documents.clone();
    long_section[1] += 1;
    let mut short_section = documents.clone();
    short_section[1] = 3;
    let mut negative_section = documents.clone();
    negative_section[4] = 0xFF;
    let unnamed: Vec<u8> = [&[1][..], &8u32.to_le_bytes(), b"abcd"].concat();
    let many: Vec<Vec<u8>> = std::iter::once(body.clone())
        .chain(["p", "q", "r", "s", "t"].map(|name| sequence_section(name, &[])))
        .collect();
    let mut long_message = op_msg(0, std::slice::from_ref(&body));
    long_message[0] += 1;
    let mut huge_message = op_msg(0, std::slice::from_ref(&body));
    huge_message[3] = 0x7F;
    let invalid_utf8 = [&[1][..], &6u32.to_le_bytes(), &[0xFF, 0]].concat();

    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "nothing",
            vec![],
            "malformed message at byte 0: expected a header of 16 bytes",
        ),
        (
            "half a header",
            vec![16, 0, 0, 0, 1],
            "malformed message at byte 5: expected a header of 16 bytes",
        ),
        (
            "longer than given",
            long_message,
            "length 34 at byte 0 of a message: expected the number of bytes of the message",
        ),
        (
            "longer than allowed",
            huge_message,
            "length 2130706465 at byte 0 of a message: expected 16 to 48000000 bytes",
        ),
        (
            "unknown operation",
            message(2002, &[]),
            "operation code 2002 is not supported",
        ),
        (
            "a reply",
            message(1, &[]),
            "operation code 1 is not supported",
        ),
        (
            "no flags",
            message(MSG, &[0; 3]),
            "malformed message at byte 16: expected the flags of OP_MSG",
        ),
        (
            "no sections",
            op_msg(0, &[]),
            "malformed message at byte 20: expected a body section",
        ),
        (
            "no body",
            op_msg(0, std::slice::from_ref(&documents)),
            "malformed message at byte 49: expected a body section",
        ),
        (
            "two bodies",
            op_msg(0, &[body.clone(), body.clone()]),
            "malformed message at byte 33: expected one body section only",
        ),
        (
            "unknown section",
            op_msg(0, &[vec![2]]),
            "malformed message at byte 20: expected a section of kind 0 or 1",
        ),
        (
            "required flags",
            op_msg(1 << 2 | 1 << 15, std::slice::from_ref(&body)),
            "required OP_MSG flags 0x8004 are not known",
        ),
        (
            "invalid body",
            op_msg(0, &[invalid_body]),
            "invalid document at byte 21 of a message: ",
        ),
        (
            "invalid document",
            op_msg(0, &[body.clone(), invalid_document]),
            "invalid document at byte 48 of a message: ",
        ),
        (
            "cut document",
            op_msg(0, &[vec![0, 50, 0, 0, 0, 0]]),
            "length 50 at byte 21 of a message: expected the length of a document within the message",
        ),
        (
            "cut length",
            op_msg(0, &[vec![0, 50]]),
            "malformed message at byte 21: expected the length of a document within the message",
        ),
        (
            "negative document",
            op_msg(0, &[vec![0, 0, 0, 0, 0x80, 0]]),
            "length -2147483648 at byte 21 of a message: expected the length of a document within the message",
        ),
        (
            "long section",
            op_msg(0, &[body.clone(), long_section]),
            "length 25 at byte 34 of a message: expected the length of a section within the message",
        ),
        (
            "short section",
            op_msg(0, &[body.clone(), short_section]),
            "length 3 at byte 34 of a message: expected the length of a section within the message",
        ),
        (
            "negative section",
            op_msg(0, &[body.clone(), negative_section]),
            "length -16777188 at byte 34 of a message: expected the length of a section within the message",
        ),
        (
            "unnamed sequence",
            op_msg(0, &[body.clone(), unnamed]),
            "malformed message at byte 38: expected the name of a document sequence",
        ),
        (
            "name not UTF-8",
            op_msg(0, &[body.clone(), invalid_utf8]),
            "malformed message at byte 38: expected the name of a document sequence",
        ),
        (
            "the same name twice",
            op_msg(0, &[body.clone(), documents.clone(), documents.clone()]),
            "malformed message at byte 62: expected document sequences of different names",
        ),
        (
            "in body and beside it",
            op_msg(
                0,
                &[body_section(&doc! { "documents": 1 }), documents.clone()],
            ),
            "malformed message at byte 16: expected a field either in the body or as a document sequence",
        ),
        (
            "many sequences",
            op_msg(0, &many),
            "more than 4 document sequences",
        ),
        (
            "checksum only",
            message(MSG, &[1, 0, 0, 0]),
            "malformed message at byte 20: expected a checksum behind the flags",
        ),
        (
            "query without a namespace",
            message(QUERY, &[0, 0, 0, 0, b'a']),
            "malformed message at byte 20: expected a namespace",
        ),
        (
            "query with more behind",
            [&op_query(b"a.$cmd", &[&doc! {}, &doc! {}, &doc! {}])[..]].concat(),
            "malformed message at byte 45: expected the end of the message",
        ),
        (
            "query without a query",
            op_query(b"a.$cmd", &[]),
            "malformed message at byte 35: expected the length of a document within the message",
        ),
        (
            "no prelude",
            message(COMPRESSED, &[0; 8]),
            "malformed message at byte 24: expected the prelude of OP_COMPRESSED",
        ),
        (
            "packed twice",
            packed(COMPRESSED, 5, 0, &[0; 5]),
            "malformed message at byte 16: expected an operation that is not itself compressed",
        ),
        (
            "unknown compressor",
            packed(MSG, 5, 9, &[0; 5]),
            "compressor 9 is not known",
        ),
        (
            "packed reply",
            packed(1, 5, 0, &[0; 5]),
            "operation code 1 is not supported",
        ),
        ("packed garbage", packed(MSG, 5, 3, &[7; 5]), "zstd: "),
    ];
    let mut scratch = Vec::new();
    for (name, bytes, expected) in cases {
        let text = refusal(&bytes, &mut scratch).to_string();
        if expected.ends_with(' ') {
            assert!(text.starts_with(expected), "{name}: {text}");
        } else {
            assert_eq!(text, expected, "{name}");
        }
    }
}

#[test]
fn a_document_beyond_the_largest_is_refused() {
    let big = "x".repeat(quarry_bson::DOCUMENT_BYTES_MAX);
    let fits = op_msg(0, &[body_section(&doc! { "a": (big.clone()) })]);
    let mut scratch = Vec::new();
    parsed_msg(&fits, &mut scratch);
    let beyond = body_of_bytes(quarry_bson::DOCUMENT_BYTES_MAX + 16 * 1024 + 1);
    let error = refusal(&op_msg(0, &[[&[0], &beyond[..]].concat()]), &mut scratch);
    assert!(
        matches!(error, Error::Document { offset: 21, .. }),
        "{error}"
    );
}

/// A document of exactly `bytes` bytes.
fn body_of_bytes(bytes: usize) -> Vec<u8> {
    let mut out = (bytes as u32).to_le_bytes().to_vec();
    out.extend_from_slice(b"\x02a\0");
    let text = bytes - out.len() - 4 - 2;
    out.extend_from_slice(&(text as u32 + 1).to_le_bytes());
    out.resize(bytes, b'x');
    out[bytes - 2] = 0;
    out[bytes - 1] = 0;
    out
}

#[test]
fn a_reply_is_built_in_place_behind_what_the_buffer_holds() {
    let mut out = b"earlier".to_vec();
    let mut reply = ReplyBuilder::new(&mut out, 40, 7);
    let mut body = DocumentBuilder::new(reply.body());
    body.append("ok", 1.0);
    body.finish();
    reply.finish();
    assert_eq!(&out[..7], b"earlier");
    let header = Header::parse(out[7..23].try_into().unwrap()).unwrap();
    assert_eq!(
        header,
        Header {
            message_bytes: out.len() - 7,
            request_id: 40,
            response_to: 7,
            op_code: MSG
        }
    );
    assert_eq!(out[23..28], [0; 5]);
    assert_eq!(
        RawDocument::validated(&out[28..]).unwrap(),
        doc! { "ok": 1.0 }
    );
}

#[test]
fn a_reply_says_that_more_comes_and_carries_a_checksum() {
    let mut out = Vec::new();
    let mut reply = ReplyBuilder::new(&mut out, 40, 7);
    DocumentBuilder::new(reply.body()).finish();
    reply.set_more_to_come();
    reply.set_checksum();
    reply.finish();
    let mut scratch = Vec::new();
    let (header, Request::Msg(msg)) = parse(&out, &mut scratch).unwrap() else {
        panic!()
    };
    assert_eq!(header.response_to, 7);
    assert!(msg.is_more_to_come() && msg.has_checksum() && msg.body.is_empty());
}

#[test]
fn a_legacy_reply_holds_one_document() {
    let mut out = Vec::new();
    let mut reply = ReplyBuilder::op_reply(&mut out, 41, 9);
    let mut body = DocumentBuilder::new(reply.body());
    body.append("ok", 1.0);
    body.finish();
    reply.finish();
    let header = Header::parse(out[..16].try_into().unwrap()).unwrap();
    assert_eq!(
        (header.message_bytes, header.response_to, header.op_code),
        (out.len(), 9, 1)
    );
    assert_eq!(
        out[16..36],
        [8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    );
    assert_eq!(
        RawDocument::validated(&out[36..]).unwrap(),
        doc! { "ok": 1.0 }
    );
}

/// A document with so many documents within each other, itself counted.
fn nested(levels: usize) -> Document {
    (1..levels).fold(Document::new(), |inner, _| doc! { "x": inner })
}

#[test]
fn a_command_may_nest_deeper_than_what_is_stored_and_its_documents_are_noted() {
    let mut scratch = Vec::new();
    let command = doc! { "insert": "c" };
    for (levels, is_deep) in [(180, false), (181, true), (200, true)] {
        let document = nested(levels);
        let in_sequence = op_msg(
            0,
            &[
                body_section(&command),
                sequence_section("documents", &[&document]),
            ],
        );
        for message in [in_sequence, op_msg(0, &[body_section(&document)])] {
            let msg = parsed_msg(&message, &mut scratch);
            assert_eq!(msg.has_deep_documents, is_deep, "{levels}");
        }
    }
    let error = refusal(&op_msg(0, &[body_section(&nested(201))]), &mut scratch);
    assert_eq!((error.code(), error.is_answerable()), (15, true), "{error}");
}

#[test]
fn text_may_be_any_bytes() {
    let mut body = doc! { "name": "text" }.into_bytes();
    let (name, text) = (5, body.len() - 6);
    body[name] = 0xff;
    body[text] = 0xfe;
    let mut scratch = Vec::new();
    let message = op_msg(0, &[[&[0], &body[..]].concat()]);
    assert_eq!(parsed_msg(&message, &mut scratch).body.as_bytes(), body);
}

#[test]
fn a_refused_message_tells_whether_its_sender_waits() {
    let mut broken = body_section(&doc! { "a": 1 });
    let last = broken.len() - 1;
    broken[last] = 1;
    for flags in [0, 2] {
        let plain = op_msg(flags, &[broken.clone()]);
        let mut packed = Vec::new();
        compress(&plain, Compressor::Snappy, &mut packed).unwrap();
        for (message, compressor) in [(plain, None), (packed, Some(Compressor::Snappy))] {
            let mut scratch = Vec::new();
            let Ok((header, Request::Refused(refused))) = parse(&message, &mut scratch) else {
                panic!("the message is not refused")
            };
            assert_eq!(header.request_id, 7);
            assert_eq!(refused.is_more_to_come, flags == 2);
            assert_eq!((refused.compressor, refused.error.code()), (compressor, 22));
        }
    }
}
