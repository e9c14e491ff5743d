//! LZ4 blocks for the bodies of large groups. What a header claims is believed only as far as LZ4 can go, so
//! that a few bytes on disk never ask for much memory.

use crate::group_header::GROUP_HEADER_BYTES;
use crate::options::RECORD_BYTES_MAX;

/// No LZ4 block grows by more than this when it is decompressed: a byte adds at most 255 to a length.
const GROWTH_MAX: usize = 255;

/// No group has more bytes of records: the largest record, and others that were gathered before it or added behind it.
const PLAIN_BYTES_MAX: usize = 2 * RECORD_BYTES_MAX;

/// Puts `group` into `packed` with its body compressed, behind the same room for a header. False if that
/// would not make it shorter.
pub(crate) fn pack(group: &[u8], packed: &mut Vec<u8>) -> bool {
    let body = &group[GROUP_HEADER_BYTES..];
    let bytes_max = lz4_flex::block::get_maximum_output_size(body.len());
    let room_bytes = GROUP_HEADER_BYTES + bytes_max;
    if packed.capacity() < room_bytes {
        // Zeros that the kernel has at hand: what the compressed group does not reach is never written.
        *packed = vec![0; room_bytes];
    } else {
        packed.clear();
        packed.resize(room_bytes, 0);
    }
    let Ok(bytes) = lz4_flex::block::compress_into(body, &mut packed[GROUP_HEADER_BYTES..]) else {
        return false;
    };
    packed.truncate(GROUP_HEADER_BYTES + bytes);
    packed.len() < group.len()
}

/// Decompresses a body into `plain`, or says why it cannot be one.
pub(crate) fn unpack(
    body: &[u8],
    plain_bytes: u32,
    plain: &mut Vec<u8>,
) -> std::result::Result<(), &'static str> {
    let plain_bytes = plain_bytes as usize;
    if plain_bytes > PLAIN_BYTES_MAX || plain_bytes > body.len().saturating_mul(GROWTH_MAX) {
        return Err("the group claims more than its bytes can hold");
    }
    plain.clear();
    plain.resize(plain_bytes, 0);
    match lz4_flex::block::decompress_into(body, plain) {
        Ok(bytes) if bytes == plain_bytes => Ok(()),
        _ => Err("the group cannot be decompressed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(body: &[u8]) -> Vec<u8> {
        [&[0; GROUP_HEADER_BYTES][..], body].concat()
    }

    #[test]
    fn what_is_packed_comes_back() {
        for body in [
            vec![7; 100_000],
            (0..50_000u32).flat_map(|n| (n / 9).to_le_bytes()).collect(),
        ] {
            let mut packed = Vec::new();
            assert!(pack(&group(&body), &mut packed));
            let mut plain = Vec::new();
            unpack(&packed[GROUP_HEADER_BYTES..], body.len() as u32, &mut plain).unwrap();
            assert!(plain == body);
        }
        // Noise does not get shorter.
        let mut state = 1u64;
        let noise: Vec<u8> = (0..1000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        assert!(!pack(&group(&noise), &mut Vec::new()));
    }

    #[test]
    fn claims_are_bounded_by_the_bytes_there_are() {
        let mut packed = Vec::new();
        assert!(pack(&group(&[0; 1000]), &mut packed));
        let body = &packed[GROUP_HEADER_BYTES..];
        let mut plain = Vec::new();
        assert!(unpack(body, u32::MAX, &mut plain).is_err());
        assert_eq!(
            plain.capacity(),
            0,
            "nothing is reserved for a claim that cannot be true"
        );
        for wrong in [0, 999, 1001] {
            assert!(unpack(body, wrong, &mut plain).is_err(), "{wrong}");
        }
    }
}
