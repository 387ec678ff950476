package gateway

import (
	"net/http"
	"path"
	"strings"
)

// policy lets the page use its own files and its own origin, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// protect sets the headers of every answer.
func (h *Handler) protect(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	header.Set("Cache-Control", "no-store")
	if h.cfg.Origin.Scheme == "https" {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// foreign returns why a request is refused for where it comes from; nil if it is not. A page of another
// origin may neither call the API nor have its own name resolve to this address.
func (h *Handler) foreign(r *http.Request) *notice {
	if !strings.EqualFold(r.Host, h.cfg.Origin.Host) {
		return &notice{
			status: http.StatusMisdirectedRequest, title: "Another address", text: "This is not the address of Weir's page.",
			remedy: "Open it at its own address.", link: h.cfg.Origin.String(),
		}
	}
	origin, site := r.Header.Values("Origin"), r.Header.Get("Sec-Fetch-Site")
	for _, from := range origin {
		if !strings.EqualFold(from, h.cfg.Origin.String()) {
			return foreignPage(h.cfg.Origin.String())
		}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && site != "" && site != "same-origin" {
		return foreignPage(h.cfg.Origin.String())
	}
	return nil
}

func foreignPage(own string) *notice {
	return &notice{
		status: http.StatusForbidden, title: "Refused", text: "A page of another site asked for this.",
		remedy: "Use Weir's own page.", link: own,
	}
}

// file serves a file of the page. Its views are in the fragments of addresses, so that other paths lead to it.
func (h *Handler) file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	if name == "" {
		name = "index.html"
	}
	known := false
	if file, err := h.cfg.Files.Open(name); err == nil {
		info, err := file.Stat()
		known = err == nil && !info.IsDir()
		_ = file.Close()
	}
	switch {
	case !known && path.Ext(name) == "":
		http.Redirect(w, r, "/", http.StatusFound)
		return
	case !known:
		notice{status: http.StatusNotFound, title: "Not found", text: "There is no file " + name + ".", remedy: "Open the page.", link: "/"}.write(w)
		return
	case strings.HasPrefix(name, "assets/"):
		// Their names change with their content.
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	default:
		w.Header().Set("Cache-Control", "no-cache")
	}
	if name == "index.html" {
		r = r.Clone(r.Context())
		r.URL.Path = "/"
	}
	h.files.ServeHTTP(w, r)
}
