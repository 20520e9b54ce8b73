//! One contract, every kind of place a store opens. Real servers, each started for the test and ended with it.

use firstbyte_testkit::{Place, conformance};

conformance!(local, Place::Local);
conformance!(versitygw, Place::Versitygw);
conformance!(minio, Place::Minio);
conformance!(serve_s3, Place::ServeS3);
conformance!(serve_http, Place::ServeHttp);
conformance!(nginx, Place::Nginx);
