//! Includes the packets of SFTP, and reads them from the bytes of a server.

#[allow(dead_code, reason = "only reading is tested")]
#[path = "../../../crates/store/src/sftp/packet.rs"]
mod packet;

/// Reads a greeting, and then replies until the bytes end.
pub fn read(bytes: &[u8]) {
    let mut input = bytes;
    let _ = packet::read_greeting(&mut input);
    let mut input = bytes;
    while !input.is_empty() {
        let before = input.len();
        // The length of a packet is only a claim of the server, so it must be bounded.
        let buffer = |length: usize| {
            assert!(length <= MAX_PACKET_BYTES, "a buffer of {length} bytes for a packet of {before}");
            vec![0; length]
        };
        match packet::read_reply(&mut input, buffer) {
            Ok((_, packet::SftpReply::Extended(reply))) => drop(packet::limits(&reply)),
            Ok((_, packet::SftpReply::Names(names))) => {
                assert!(names.len() <= before / 12);
                for name in names {
                    let _ = (name.attributes.kind(), name.attributes.time());
                }
            }
            Ok((_, packet::SftpReply::Attributes(attributes))) => drop((attributes.kind(), attributes.time())),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Maximum length of a packet in bytes.
const MAX_PACKET_BYTES: usize = 64 << 20;
