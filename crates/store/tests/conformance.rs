//! The conformance suite, run against every backend. Each test starts its own real server.

use firstbyte_testkit::conformance;

conformance!(local, Local);
conformance!(versitygw, Versitygw);
conformance!(minio, Minio);
conformance!(serve_s3, ServeS3);
conformance!(serve_http, ServeHttp);
conformance!(nginx, Nginx);
conformance!(google, Google);
conformance!(azure, Azure);
conformance!(sftp, Sftp);
conformance!(minio_tls, MinioTls);
conformance!(serve_s3_tls, ServeS3Tls);
conformance!(serve_http_tls, ServeHttpTls);
