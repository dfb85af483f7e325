// Package ucxenv handles UCX's configuration as text: it parses the output of ucp_config_print, and checks UCX_*
// environment variables for settings with which UCX fails, crashes or silently ignores the user.
//
// It is pure Go and loads no library; the capabilities of the loaded libucx and the host are passed in as a [Host].
package ucxenv
