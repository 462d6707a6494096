package dlq

// SQLListGroups is the statement that counts groups.
const SQLListGroups = sqlListGroups
