//! Writes a request body to a file. Pieces are written and hashed (`ByteDigest`) in order on
//! blocking threads, each while the next one is received.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;

/// Destination of the pieces of a body: a file, or the place of a part of an upload.
pub(crate) trait WriteAt: Send + Sync + std::fmt::Debug + 'static {
    /// Writes all of `bytes` at `offset`. Blocking.
    ///
    /// # Errors
    /// A system call fails, or these bytes may not be written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

impl WriteAt for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }
}

/// Writes pieces to a file in order, each while the next one is received.
#[derive(Debug)]
pub(crate) struct PieceWriter<D> {
    file: Arc<dyn WriteAt>,
    offset: u64,
    digest: Option<D>,
    running: Option<JoinHandle<io::Result<D>>>,
}

/// Consumes all bytes in order, for example to compute a checksum.
pub(crate) trait ByteDigest: Send + 'static {
    /// Consumes the next bytes.
    fn update(&mut self, bytes: &[u8]);
}

impl ByteDigest for () {
    fn update(&mut self, _bytes: &[u8]) {}
}

impl<D: ByteDigest> PieceWriter<D> {
    /// Starts writing at `offset` of `file`.
    pub(crate) fn new(file: Arc<dyn WriteAt>, offset: u64, digest: D) -> Self {
        Self { file, offset, digest: Some(digest), running: None }
    }

    /// Writes `piece` after the previous pieces. Waits only until the piece before it is written.
    pub(crate) async fn write(&mut self, piece: Bytes) -> io::Result<()> {
        let mut digest = self.digest().await?;
        let (file, offset) = (self.file.clone(), self.offset);
        self.offset += piece.len() as u64;
        self.running = Some(tokio::task::spawn_blocking(move || {
            file.write_all_at(&piece, offset)?;
            digest.update(&piece);
            Ok(digest)
        }));
        Ok(())
    }

    /// Returns the offset of the next piece.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Waits for the last piece. Returns the digest.
    pub(crate) async fn finish(mut self) -> io::Result<D> {
        self.digest().await
    }

    async fn digest(&mut self) -> io::Result<D> {
        if let Some(running) = self.running.take() {
            return running.await.map_err(io::Error::other)?;
        }
        self.digest.take().ok_or_else(|| io::Error::other("an earlier write failed"))
    }
}
