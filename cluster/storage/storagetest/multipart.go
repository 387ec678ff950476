package storagetest

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// leastPart is the minimum size of every part of an upload except the last.
const leastPart = 5 << 20

func (s *Server) begin(w http.ResponseWriter, r *http.Request, bucket, key string) {
	s.number++
	id := fmt.Sprintf("upload-%d", s.number)
	s.uploads[id] = &upload{bucket: bucket, key: key, meta: meta(r.Header), parts: map[int][]byte{}}
	write(w, "InitiateMultipartUploadResult", fmt.Sprintf("<Bucket>%s</Bucket><Key>%s</Key><UploadId>%s</UploadId>", bucket, escape(key), id))
}

func (s *Server) listUploads(w http.ResponseWriter, bucket, prefix string) {
	var text strings.Builder
	for id, u := range s.uploads {
		if u.bucket == bucket && strings.HasPrefix(u.key, prefix) {
			fmt.Fprintf(&text, "<Upload><Key>%s</Key><UploadId>%s</UploadId><Initiated>%s</Initiated></Upload>", escape(u.key), id, time.Now().UTC().Format(time.RFC3339))
		}
	}
	write(w, "ListMultipartUploadsResult", "<Bucket>"+bucket+"</Bucket><IsTruncated>false</IsTruncated>"+text.String())
}

// multipart stores a part, or completes or aborts an upload.
func (s *Server) multipart(w http.ResponseWriter, r *http.Request, bucket, key string, body []byte) {
	id := r.URL.Query().Get("uploadId")
	u := s.uploads[id]
	if u == nil || u.bucket != bucket || u.key != key {
		refuse(w, r, http.StatusNotFound, "NoSuchUpload")
		return
	}
	switch r.Method {
	case http.MethodPut:
		s.takePart(w, r, u, body)
	case http.MethodDelete:
		delete(s.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		s.complete(w, r, id, u, body)
	default:
		refuse(w, r, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *Server) takePart(w http.ResponseWriter, r *http.Request, u *upload, body []byte) {
	number, err := strconv.Atoi(r.URL.Query().Get("partNumber"))
	if err != nil || number < 1 || number > 10000 {
		refuse(w, r, http.StatusBadRequest, "InvalidPart")
		return
	}
	etag := fmt.Sprintf("part-%d", number)
	if from := r.Header.Get("X-Amz-Copy-Source"); from != "" {
		data, ok := s.source(w, r, from)
		if !ok {
			return
		}
		u.parts[number] = data
		write(w, "CopyPartResult", fmt.Sprintf(`<ETag>"%s"</ETag><LastModified>%s</LastModified>`, etag, time.Now().UTC().Format(time.RFC3339)))
		return
	}
	u.parts[number] = body
	w.Header().Set("ETag", `"`+etag+`"`)
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request, id string, u *upload, body []byte) {
	if s.taken(w, r, u.bucket, u.key) {
		return
	}
	var list struct {
		Part []struct {
			PartNumber int
		}
	}
	if err := xml.Unmarshal(body, &list); err != nil {
		refuse(w, r, http.StatusBadRequest, "MalformedXML")
		return
	}
	var data []byte
	for i, part := range list.Part {
		piece, ok := u.parts[part.PartNumber]
		if !ok {
			refuse(w, r, http.StatusBadRequest, "InvalidPart")
			return
		}
		if len(piece) < leastPart && i < len(list.Part)-1 {
			refuse(w, r, http.StatusBadRequest, "EntityTooSmall")
			return
		}
		data = append(data, piece...)
	}
	o := s.put(u.bucket, u.key, data, u.meta)
	delete(s.uploads, id)
	write(w, "CompleteMultipartUploadResult", fmt.Sprintf(`<Bucket>%s</Bucket><Key>%s</Key><ETag>"%s"</ETag>`, u.bucket, escape(u.key), o.etag))
}
