// Puts and gets objects as programs with the AWS SDK for Go do, for the tests of serve.
//
//	aws-sdk-go put KEY FILE [ALGORITHM]   one request; the SDK sends it as one chunk
//	aws-sdk-go upload KEY [ALGORITHM]     standard input, in parts
//	aws-sdk-go get KEY                    to standard output, checked
//
// Endpoint, key and trust come from the environment, as AWS_REQUEST_CHECKSUM_CALCULATION does.
package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const bucket = "data"

func main() {
	log.SetFlags(0)
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, verb, key string, rest []string) error {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	name := bucket
	client := s3.NewFromConfig(settings, func(o *s3.Options) { o.UsePathStyle = true })
	input := &s3.PutObjectInput{Bucket: &name, Key: &key}
	switch verb {
	case "put":
		file, err := os.Open(rest[0])
		if err != nil {
			return err
		}
		defer file.Close()
		if len(rest) > 1 {
			input.ChecksumAlgorithm = types.ChecksumAlgorithm(rest[1])
		}
		input.Body = file
		_, err = client.PutObject(ctx, input)
		return err
	case "upload":
		if len(rest) > 0 {
			input.ChecksumAlgorithm = types.ChecksumAlgorithm(rest[0])
		}
		// A pipe cannot be sought, though os.Stdin says so.
		input.Body = struct{ io.Reader }{os.Stdin}
		_, err := manager.NewUploader(client).Upload(ctx, input)
		return err
	default:
		found, err := client.GetObject(ctx, &s3.GetObjectInput{
			Bucket: &name, Key: &key, ChecksumMode: types.ChecksumModeEnabled,
		})
		if err != nil {
			return err
		}
		defer found.Body.Close()
		_, err = io.Copy(os.Stdout, found.Body)
		return err
	}
}
