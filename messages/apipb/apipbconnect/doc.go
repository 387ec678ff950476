// Package apipbconnect holds the handlers and clients of the public API.
package apipbconnect
