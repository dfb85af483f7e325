// Package ucxenv reads UCX's configuration as text: it parses what
// ucp_config_print prints, and it looks through UCX_* environment variables for
// what would make UCX fail, crash or silently ignore the user.
//
// It is pure Go and loads no library; what the loaded libucx and the host offer is
// passed in as a [Host].
package ucxenv
