package comm

// For tests of this folder.
const DefaultStagedLines = defaultStagedLines

var ParseStagedMode = parseStagedMode
