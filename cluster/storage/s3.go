package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"gopkg.in/ini.v1"
)

const (
	s3Attempts = 8
	s3Timeout  = 30 * time.Second
	// s3Expiry is how long a URL is valid: the maximum that S3 allows.
	s3Expiry = 7 * 24 * time.Hour
)

// s3 is an object store.
type s3 struct {
	cfg  S3Config
	once sync.Once
	core *minio.Core
	err  error
}

// client returns the client of the store; the first call makes it.
func (s *s3) client() (*minio.Core, error) {
	s.once.Do(func() {
		cfg := s.cfg
		cfg.complete()
		s.core, s.err = connect(cfg)
		if s.err != nil {
			s.err = fmt.Errorf("object store: %w", s.err)
		}
	})
	return s.core, s.err
}

// complete fills empty fields from the environment and the files of the AWS tools.
func (c *S3Config) complete() {
	profile := profileSection()
	c.Endpoint = cmp.Or(c.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), profile["endpoint_url"], "https://s3.amazonaws.com")
	c.Region = cmp.Or(c.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), profile["region"], "us-east-1")
	c.Attempts, c.Timeout = cmp.Or(c.Attempts, s3Attempts), cmp.Or(c.Timeout, s3Timeout)
}

// profileSection returns the settings of the current profile in the configuration file of
// the AWS tools; none if the file is missing or cannot be read.
func profileSection() map[string]string {
	name := os.Getenv("AWS_CONFIG_FILE")
	if home, err := os.UserHomeDir(); name == "" && err == nil {
		name = filepath.Join(home, ".aws", "config")
	}
	file, err := ini.Load(name)
	if err != nil {
		return nil
	}
	section := "default"
	if profile := os.Getenv("AWS_PROFILE"); profile != "" && profile != section {
		section = "profile " + profile
	}
	return file.Section(section).KeysHash()
}

func connect(cfg S3Config) (*minio.Core, error) {
	endpoint, err := url.Parse(cfg.Endpoint)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return nil, fmt.Errorf("endpoint %q is not an http:// or https:// URL: see AWS_ENDPOINT_URL", cfg.Endpoint)
	}
	transport, err := minio.DefaultTransport(endpoint.Scheme == "https")
	if err != nil {
		return nil, err
	}
	transport.DialContext = (&net.Dialer{Timeout: cfg.Timeout}).DialContext
	transport.ResponseHeaderTimeout = cfg.Timeout
	creds := credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, "")
	if cfg.AccessKey == "" {
		creds = credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{},
			&credentials.FileAWSCredentials{},
			&credentials.IAM{Client: &http.Client{Transport: transport}},
		})
	}
	return minio.NewCore(endpoint.Host, &minio.Options{
		Creds: creds, Secure: endpoint.Scheme == "https", Transport: transport, Region: cfg.Region, MaxRetries: cfg.Attempts,
	})
}

// object is a bucket and a key.
type object struct{ bucket, key string }

func (o object) String() string { return "s3://" + o.bucket + "/" + o.key }

// parseObject reads s3://bucket/key.
func parseObject(name string) (object, error) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(name, "s3://"), "/")
	if bucket == "" {
		return object{}, errors.New("no bucket: write s3://bucket/key")
	}
	return object{bucket, key}, nil
}

// at returns the client of the store, and the bucket and key of a name.
func (s *s3) at(name string) (*minio.Core, object, error) {
	client, err := s.client()
	if err != nil {
		return nil, object{}, err
	}
	o, err := parseObject(name)
	return client, o, err
}

// presigned returns a URL of an object, signed by `sign`.
func (s *s3) presigned(name string, sign func(*minio.Core, object) (*url.URL, error)) (string, error) {
	client, o, err := s.at(name)
	if err != nil {
		return "", err
	}
	u, err := sign(client, o)
	if err != nil {
		return "", s.explain(err)
	}
	return u.String(), nil
}

// toPut returns a presigned URL that accepts a PUT of an object.
func (s *s3) toPut(ctx context.Context, name string) (string, error) {
	return s.presigned(name, func(client *minio.Core, o object) (*url.URL, error) {
		return client.PresignedPutObject(ctx, o.bucket, o.key, s3Expiry)
	})
}

// explain turns an error of the store into one that makes sense to the user.
func (s *s3) explain(err error) error {
	var answer minio.ErrorResponse
	var silence *url.Error
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &silence), errors.As(err, &answer) && answer.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%w after %d attempts: %w", ErrUnavailable, cmp.Or(s.cfg.Attempts, s3Attempts), err)
	case answer.Code == minio.NoSuchBucket:
		return fmt.Errorf("there is no bucket %q", answer.BucketName)
	case answer.StatusCode == http.StatusNotFound:
		return errors.New("there is no such object")
	case answer.StatusCode == http.StatusForbidden:
		return fmt.Errorf("access denied by the object store: replicas need credentials that permit this, as in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: %w", err)
	default:
		return err
	}
}

// isMissing reports whether err says that an object is missing. A missing bucket does not count:
// that is a real error.
func isMissing(err error) bool {
	var answer minio.ErrorResponse
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound && answer.Code != minio.NoSuchBucket
}
