// Package benchfmt formats the results of all `millstream bench` commands: a [Figure] per measured number, written as
// JSON lines ([JSONWriter]) or as an aligned table ([Table]). It also has message sizes ([ParseSizes]), the statistics
// of alternating rounds ([Rounds]) and the progress line ([Progress]).
package benchfmt
