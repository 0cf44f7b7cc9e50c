//! Closed segments in a bucket of an S3 service.
//!
//! A segment is written here first and goes there when it is closed. It is there once the service
//! says that it has all of it; until then nothing here may be removed. What a crash leaves of an
//! upload is no object, and the segment is sent again.

use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::aws::{AmazonS3Builder, Checksum};
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, path};

use super::{ArchiveError, segment};
use crate::db::private;

/// What goes in one request at the most.
const PART: u64 = 8 << 20;
/// Parts that an object may have.
const PARTS: u64 = 9_000;

/// Which bucket, and how to reach it. What is empty is taken from the usual `AWS_…` variables.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    /// `s3://bucket/prefix`.
    pub url: String,
    /// Where the service is, when it is not Amazon's.
    pub endpoint: String,
    /// The region.
    pub region: String,
    /// Who we are there.
    pub access_key: String,
    /// Our password there.
    pub secret_key: String,
}

/// A bucket that can be used.
#[derive(Clone, Debug)]
pub struct Remote {
    store: Arc<dyn ObjectStore>,
    prefix: path::Path,
    url: String,
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl Remote {
    /// Prepares to use a bucket; nothing is asked of it yet.
    pub fn new(bucket: &Bucket) -> Result<Self, ArchiveError> {
        let fail = |message: String| ArchiveError::Remote { place: bucket.url.clone(), message };
        let rest = bucket.url.strip_prefix("s3://").unwrap_or(&bucket.url);
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        // SHA-256 with every request: what arrives is what was sent, or it is refused.
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(name)
            .with_checksum_algorithm(Checksum::SHA256);
        if !bucket.endpoint.is_empty() {
            let plain = bucket.endpoint.starts_with("http://");
            builder = builder.with_endpoint(bucket.endpoint.as_str()).with_allow_http(plain);
        }
        if !bucket.region.is_empty() {
            builder = builder.with_region(bucket.region.as_str());
        }
        if !bucket.access_key.is_empty() {
            builder = builder
                .with_access_key_id(bucket.access_key.as_str())
                .with_secret_access_key(bucket.secret_key.as_str());
        }
        let store = builder.build().map_err(|error| fail(error.to_string()))?;
        let prefix = path::Path::parse(prefix).map_err(|error| fail(error.to_string()))?;
        Ok(Self { store: Arc::new(store), prefix, url: bucket.url.clone() })
    }

    fn object(&self, segment: &str) -> path::Path {
        self.prefix.clone().join(segment)
    }

    fn fail(&self, segment: &str) -> impl Fn(object_store::Error) -> ArchiveError {
        let place = format!("{}/{segment}", self.url.trim_end_matches('/'));
        move |error| ArchiveError::Remote { place: place.clone(), message: error.to_string() }
    }

    /// The size of a segment; `None` when it is not there.
    pub async fn size(&self, segment: &str) -> Result<Option<u64>, ArchiveError> {
        match self.store.head(&self.object(segment)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.fail(segment)(error)),
        }
    }

    /// Brings a closed segment there, unless it is there already; it is when this returns.
    pub async fn keep(&self, dir: &Path, segment: &str) -> Result<(), ArchiveError> {
        let path = dir.join(segment);
        let length = fs::metadata(&path).map_err(ArchiveError::io(&path))?.len();
        if self.size(segment).await? == Some(length) {
            return Ok(());
        }
        self.replace(dir, segment).await
    }

    /// Brings a closed segment there, whatever is there; it is when this returns.
    pub async fn replace(&self, dir: &Path, segment: &str) -> Result<(), ArchiveError> {
        let path = dir.join(segment);
        let file = private::read_regular(&path).map_err(ArchiveError::io(&path))?;
        let length = file.metadata().map_err(ArchiveError::io(&path))?.len();
        if length <= PART {
            let payload = PutPayload::from(part(file, &path, length).await?.1);
            let put = self.store.put(&self.object(segment), payload).await;
            put.map_err(self.fail(segment))?;
        } else {
            self.keep_in_parts(file, &path, segment, length).await?;
        }
        match self.size(segment).await? {
            Some(size) if size == length => Ok(()),
            size => {
                let message = format!("{size:?} bytes are there, {length} were sent");
                let place = format!("{self}/{segment}");
                Err(ArchiveError::Remote { place, message })
            }
        }
    }

    async fn keep_in_parts(
        &self,
        mut file: File,
        path: &Path,
        segment: &str,
        length: u64,
    ) -> Result<(), ArchiveError> {
        let size = PART.max(length / PARTS + 1);
        let mut upload =
            self.store.put_multipart(&self.object(segment)).await.map_err(self.fail(segment))?;
        let mut sent = 0;
        while sent < length {
            let (rest, bytes) = part(file, path, size.min(length - sent)).await?;
            (file, sent) = (rest, sent + bytes.len() as u64);
            if let Err(error) = upload.put_part(bytes.into()).await {
                // What is left of it is of no use; that it cannot be removed is not what went wrong.
                drop(upload.abort().await);
                return Err(self.fail(segment)(error));
            }
        }
        upload.complete().await.map_err(self.fail(segment))?;
        Ok(())
    }

    /// Bytes of a segment, as many of the range as there are; `None` when it is not there.
    pub async fn read(
        &self,
        segment: &str,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, ArchiveError> {
        match self.store.get_range(&self.object(segment), range).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.fail(segment)(error)),
        }
    }

    /// Writes a whole segment to a file; false when it is not there.
    pub async fn download(&self, segment: &str, to: &mut File) -> Result<bool, ArchiveError> {
        let mut bytes = match self.store.get(&self.object(segment)).await {
            Ok(found) => found.into_stream(),
            Err(object_store::Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(self.fail(segment)(error)),
        };
        while let Some(chunk) = bytes.next().await {
            let chunk = chunk.map_err(self.fail(segment))?;
            to.write_all(&chunk).map_err(ArchiveError::io(Path::new(segment)))?;
        }
        Ok(true)
    }

    /// All segments there with their sizes.
    pub async fn list(&self) -> Result<Vec<(String, u64)>, ArchiveError> {
        let mut objects = self.store.list(Some(&self.prefix));
        let mut found = Vec::new();
        while let Some(object) = objects.next().await {
            let object = object.map_err(self.fail(""))?;
            if let Some(name) = object.location.filename()
                && name.ends_with(segment::SUFFIX)
            {
                found.push((name.to_owned(), object.size));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Removes a segment; it may be gone already.
    pub async fn remove(&self, segment: &str) -> Result<(), ArchiveError> {
        match self.store.delete(&self.object(segment)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.fail(segment)(error)),
        }
    }
}

/// The next bytes of a file, read where waiting for a disk holds nobody up.
async fn part(mut file: File, path: &Path, length: u64) -> Result<(File, Bytes), ArchiveError> {
    let read = move || {
        let mut bytes = Vec::new();
        let done = (&mut file).take(length).read_to_end(&mut bytes);
        done.map(|_| (file, bytes.into()))
    };
    let done = tokio::task::spawn_blocking(read).await;
    done.map_err(std::io::Error::other).flatten().map_err(ArchiveError::io(path))
}
