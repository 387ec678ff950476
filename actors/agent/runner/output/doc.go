// Package output keeps the standard output and error of jobs in bounded space.
//
// If a stream outgrows its limit, its beginning (half of the limit) and its end are kept: errors
// are at the end, their causes often at the beginning. The stream is cut into files, each named by
// the stream and the offset of its first byte in the stream: "stdout.00000000000000000000" is the
// head, of half the limit. Behind it come tail files of an eighth of the limit each; when a fifth
// tail file is begun, the oldest is removed. So a folder never holds more than the limit, at least
// the last three eighths of the limit are kept, and what is kept can be read at any moment, also
// after the writer was killed: nothing but the files' names and sizes is needed.
//
// Offsets are those of the stream as the job wrote it. Where bytes were
// dropped, Read returns one line that says how many.
package output
