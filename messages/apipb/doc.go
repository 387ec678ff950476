// Package apipb holds the public API.
package apipb
